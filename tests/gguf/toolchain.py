"""llama.cpp's converter, quantiser and library for the tests of this folder.

All of it comes from one source package, llama-cpp-python, so converter and library are of one commit.
It lies in <folder>/toolchain: `venv` (the converter needs torch and transformers, some 6 GB),
`source` (the unpacked package), `lib` (libllama and libggml, built for this machine),
`lib-avx2` (the same for AVX2, FMA and F16C alone, made when asked for).
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

LLAMA_CPP_PYTHON = "llama-cpp-python==0.3.36"
REQUIREMENTS = ["torch==2.15.0", "transformers==5.24.0", "sentencepiece==0.2.3", "protobuf==7.36.2",
                "numpy==2.4.6", "diskcache", "jinja2", "typing_extensions", "requests", "pyyaml"]


def default_folder():
    home = os.environ.get("PERGOLA_HOME") or os.path.expanduser("~/.cache/pergola")
    return pathlib.Path(home) / "gguf"


class Toolchain:
    def __init__(self, folder, isa=""):
        """isa: "" for this machine's instructions, or "avx2"."""
        self.isa = isa
        self.root = pathlib.Path(folder) / "toolchain"
        self.python = self.root / "venv" / "bin" / "python"
        self.source = self.root / "source"
        self.llama_cpp = self.source / "vendor" / "llama.cpp"
        self.converter = self.llama_cpp / "convert_hf_to_gguf.py"
        self.lib = self.root / ("lib-" + isa if isa else "lib")

    def make(self):
        """Makes what is not there yet."""
        self.root.mkdir(parents=True, exist_ok=True)
        self._make_venv()
        self.make_library()

    def make_library(self):
        self._unpack_source()
        self._build_library()

    def enter(self):
        """Goes on in the toolchain's Python, whichever started the script."""
        if pathlib.Path(sys.prefix) != self.python.parent.parent:
            os.execv(self.python, [str(self.python), *sys.argv])

    def binding(self):
        """The module llama_cpp.llama_cpp: llama.h through ctypes."""
        os.environ["LLAMA_CPP_LIB_PATH"] = str(self.lib)
        sys.path.insert(0, str(self.source))
        import llama_cpp.llama_cpp as library
        library.llama_backend_init()
        return library

    def _make_venv(self):
        done = self.root / "venv" / "complete"
        if done.exists():
            return
        subprocess.run([sys.executable, "-m", "venv", self.root / "venv"], check=True)
        subprocess.run([self.python, "-m", "pip", "install", "-q", *REQUIREMENTS], check=True)
        done.touch()

    def _unpack_source(self):
        if self.converter.exists():
            return
        download = self.root / "download"
        subprocess.run([self.python, "-m", "pip", "download", "-q", "--no-deps", "--no-binary",
                        "llama-cpp-python", "-d", download, LLAMA_CPP_PYTHON], check=True)
        archive, = download.glob("llama_cpp_python-*.tar.gz")
        unpacked = self.root / "unpacked"
        shutil.rmtree(unpacked, ignore_errors=True)
        with tarfile.open(archive) as tar:
            tar.extractall(unpacked, filter="data")
        top, = unpacked.iterdir()
        shutil.rmtree(self.source, ignore_errors=True)
        top.rename(self.source)
        shutil.rmtree(unpacked)
        shutil.rmtree(download)

    def _build_library(self):
        if (self.lib / "complete").exists():
            return
        build = self.root / ("build-" + self.isa if self.isa else "build")
        # As the package builds it, without the programs and what only they need.
        options = ["-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=ON", "-DLLAMA_BUILD_COMMON=OFF",
                   "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_TOOLS=OFF",
                   "-DLLAMA_BUILD_SERVER=OFF", "-DLLAMA_CURL=OFF",
                   "-DCMAKE_BUILD_RPATH_USE_ORIGIN=ON"]
        if self.isa == "avx2":  # what ggml builds for when it does not look at the machine
            options.append("-DGGML_NATIVE=OFF")
        subprocess.run(["cmake", "-G", "Ninja", "-S", self.llama_cpp, "-B", build, *options],
                       check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["cmake", "--build", build, "--target", "llama"], check=True,
                       stdout=subprocess.DEVNULL)
        shutil.rmtree(self.lib, ignore_errors=True)
        shutil.copytree(build / "bin", self.lib, symlinks=True)
        shutil.rmtree(build)
        (self.lib / "complete").touch()
