#!/usr/bin/env python3
"""`pergola service install` as a process, and the committed units, which are what it prints.

Usage: service_test.py PERGOLA
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest

PERGOLA = None
DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"
COMMANDS = ("serve", "server", "gateway")


def service(*arguments, **environment):
    return subprocess.run([PERGOLA, "service", "install", *arguments], capture_output=True, text=True,
                          env={"PATH": "/usr/bin:/bin", **environment}, check=False)


class ServiceTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_packaged_units_are_what_it_prints(self):
        for command in COMMANDS:
            said = service(command, "--dry-run", "--binary", "/usr/bin/pergola",
                           "--", "--config", f"/etc/pergola/{command}.toml")
            self.assertEqual((said.returncode, said.stderr), (0, ""))
            self.assertEqual(said.stdout, (DEPLOY / "systemd" / f"pergola-{command}.service").read_text())

    def test_systemd_waits_for_what_the_configuration_says(self):
        config = self.folder / "serve.toml"
        config.write_text("port = 1\ndrain-timeout = 90\n")
        for arguments, seconds in (([f"--config={config}"], 105), (["--config", config, "--drain-timeout", "10"], 25),
                                   (["--config", self.folder / "missing.toml"], 45)):
            said = service("serve", "--dry-run", "--", *arguments)
            self.assertEqual((said.returncode, said.stderr), (0, ""))
            self.assertIn(f"\nTimeoutStopSec={seconds}\n", said.stdout)

    def test_systemd_reads_the_units(self):
        if shutil.which("systemd-analyze") is None:
            self.skipTest("no systemd-analyze")
        for of in ("--user", "--system"):
            for command in COMMANDS:
                self.assertEqual(service(command, of, "--unit-dir", self.folder, "--force", "--", "--model",
                                         "a model; $HOME 100%").returncode, 0)
                unit = self.folder / f"pergola-{command}.service"
                said = subprocess.run(["systemd-analyze", "verify", "--man=no", of, unit],
                                      capture_output=True, text=True, check=False,
                                      env={"PATH": "/usr/bin:/bin", "HOME": str(self.folder),
                                           "XDG_RUNTIME_DIR": str(self.folder)})
                mine = [line for line in said.stderr.splitlines() if f"pergola-{command}" in line]
                self.assertEqual(mine, [])

    def test_users_unit_lies_in_their_folder(self):
        said = service("serve", "--user", HOME=str(self.folder))
        self.assertEqual(said.returncode, 0, said.stderr)
        unit = self.folder / ".config/systemd/user/pergola-serve.service"
        self.assertIn(f"ExecStart={PERGOLA} serve\n", unit.read_text())
        self.assertIn("systemctl --user enable --now pergola-serve.service\n", said.stdout)
        said = service("serve", "--user", HOME="/nowhere", XDG_CONFIG_HOME=str(self.folder / "config"))
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertTrue((self.folder / "config/systemd/user/pergola-serve.service").exists())

    def test_a_unit_that_differs_stays(self):
        self.assertEqual(service("serve", "--unit-dir", self.folder).returncode, 0)
        self.assertEqual(service("serve", "--unit-dir", self.folder).returncode, 0)
        said = service("serve", "--unit-dir", self.folder, "--", "--port", "1")
        self.assertEqual(said.returncode, 1)
        self.assertIn("--force", said.stderr)
        self.assertNotIn("--port", (self.folder / "pergola-serve.service").read_text())

    def test_dry_run_writes_nothing(self):
        self.assertEqual(service("serve", "--dry-run", "--unit-dir", self.folder).returncode, 0)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_wrong_commands_are_refused(self):
        self.assertEqual(service("embed").returncode, 2)
        self.assertEqual(service("serve", "--", "a\nb").returncode, 1)

    def test_example_configurations_are_read(self):
        for command in COMMANDS:
            path = DEPLOY / "examples" / f"{command}.toml"
            self.assertIn("model", tomllib.loads(path.read_text()))
            # Unknown keys would be an error before the model is looked for.
            said = subprocess.run([PERGOLA, command, "--config", path, "--offline"], capture_output=True, text=True,
                                  env={"PATH": "/usr/bin:/bin", "PERGOLA_HOME": str(self.folder)}, check=False)
            self.assertEqual(said.returncode, 4, said.stderr)
            self.assertIn("all-MiniLM-L6-v2", said.stderr)


if __name__ == "__main__":
    PERGOLA = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
