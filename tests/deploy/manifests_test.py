#!/usr/bin/env python3
"""Checks deploy/kubernetes against the API's schemas, and that its parts fit each other and the program.

Usage: manifests_test.py PERGOLA   (needs PyYAML and kubernetes-validate: requirements.txt)
"""

import pathlib
import re
import subprocess
import sys
import unittest

import kubernetes_validate
import yaml

PERGOLA = None
FOLDER = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"
API_VERSIONS = ("1.29", "1.32")


def objects():
    for name in yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]:
        yield from yaml.safe_load_all((FOLDER / name).read_text())


def of_kind(kind):
    return {each["metadata"]["name"]: each for each in objects() if each["kind"] == kind}


def containers(deployment):
    spec = deployment["spec"]["template"]["spec"]
    return spec["initContainers"] + spec["containers"]


class ManifestsTest(unittest.TestCase):
    def test_every_object_fits_its_schema(self):
        for each in objects():
            for version in API_VERSIONS:
                with self.subTest(kind=each["kind"], name=each["metadata"]["name"], version=version):
                    kubernetes_validate.validate(each, version, strict=True)

    def test_a_wrong_object_is_noticed(self):
        wrong = of_kind("Deployment")["pergola-server"]
        wrong["spec"]["replica"] = 2
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(wrong, API_VERSIONS[0], strict=True)

    def test_every_file_is_named(self):
        named = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]
        self.assertEqual(sorted([*named, "kustomization.yaml"]), sorted(path.name for path in FOLDER.iterdir()))

    def test_selectors_find_pods(self):
        pods = [each["spec"]["template"]["metadata"]["labels"] for each in of_kind("Deployment").values()]
        selectors = [each["spec"]["selector"] for each in of_kind("Service").values()]
        selectors += [each["spec"]["selector"]["matchLabels"] for each in of_kind("PodDisruptionBudget").values()]
        selectors += [each["spec"]["podSelector"]["matchLabels"] for each in of_kind("NetworkPolicy").values()]
        self.assertEqual(len(selectors), 6)
        for selector in selectors:
            found = [labels for labels in pods if selector.items() <= labels.items()]
            self.assertEqual(len(found), 1, selector)
        for scaler in of_kind("HorizontalPodAutoscaler").values():
            self.assertIn(scaler["spec"]["scaleTargetRef"]["name"], of_kind("Deployment"))

    def test_containers_are_confined(self):
        for deployment in of_kind("Deployment").values():
            self.assertTrue(deployment["spec"]["template"]["spec"]["securityContext"]["runAsNonRoot"])
            for container in containers(deployment):
                context = container["securityContext"]
                self.assertTrue(context["readOnlyRootFilesystem"])
                self.assertFalse(context["allowPrivilegeEscalation"])
                self.assertEqual(context["capabilities"]["drop"], ["ALL"])

    def test_the_program_knows_every_flag(self):
        for deployment in of_kind("Deployment").values():
            command, *flags = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
            said = subprocess.run([PERGOLA, command, "--help"], capture_output=True, text=True, check=True).stdout
            for flag in flags:
                self.assertRegex(said, re.escape(flag.split("=")[0]) + r"\b")

    def test_ports_meet(self):
        gateway, server = (of_kind("Deployment")[name]["spec"]["template"]["spec"]["containers"][0]
                           for name in ("pergola-gateway", "pergola-server"))
        service = of_kind("Service")["pergola-server"]
        self.assertEqual(service["spec"]["clusterIP"], "None")
        backend, = (flag.split("=", 1)[1] for flag in gateway["args"] if flag.startswith("--backend="))
        port = service["spec"]["ports"][0]["port"]
        self.assertEqual(backend, f"dns:///{service['metadata']['name']}:{port}")
        self.assertIn(f"--port={port}", server["args"])
        self.assertEqual(server["readinessProbe"]["grpc"]["port"], port)
        allowed = of_kind("NetworkPolicy")["pergola-server"]["spec"]["ingress"][0]["ports"]
        self.assertEqual([each["port"] for each in allowed], [port])


if __name__ == "__main__":
    PERGOLA = sys.argv.pop(1)
    unittest.main()
