"""Projects that use Sluice, built as their owners would: what a build did is read from what it printed."""

import argparse
import os
import re
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent


def options(*more):
    """--cmake, --compiler, --work, and the further ones that a test names. All are needed."""
    parser = argparse.ArgumentParser()
    for name in ("--cmake", "--compiler", "--work", *more):
        parser.add_argument(name, required=True)
    return parser.parse_args()


def run(*command, expect=0, **more):
    """What the command prints; the test ends unless it exits with `expect` (None: with anything but 0)."""
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, **more)
    if done.returncode != expect if expect is not None else done.returncode == 0:
        raise SystemExit(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def fresh(folder):
    shutil.rmtree(folder, ignore_errors=True)
    Path(folder).mkdir(parents=True)
    return Path(folder)


def install(cmake, build, prefix, *components):
    for component in components:
        run(cmake, "--install", build, "--prefix", prefix, "--component", component)
    return prefix


class Built:
    """What one build did."""

    def __init__(self, output):
        self.output = output
        self.generated = set(re.findall(r"Generating the executor (\S+)", output))
        self.compiled = {Path(path).name.removesuffix(".o")
                         for path in re.findall(r"Building CXX object (\S+)", output)}
        self.linked = {Path(path).name for path in re.findall(r"Linking CXX \w+(?: \w+)? (\S+)", output)}

    def nothing(self):
        return not (self.generated or self.compiled or self.linked)

    def __str__(self):
        return f"generated {self.generated}, compiled {self.compiled}, linked {self.linked}\n{self.output}"


class Project:
    """A copy of the consumer's sources in `folder`, and its build in a folder beside or elsewhere."""

    def __init__(self, options, folder, generator, build=None, copy=True):
        self.cmake, self.compiler, self.generator = options.cmake, options.compiler, generator
        self.source = Path(folder)
        self.build_folder = Path(build or self.source / "build")
        if copy:
            shutil.rmtree(self.source, ignore_errors=True)
            shutil.copytree(HERE / "consumer", self.source)
        shutil.rmtree(self.build_folder, ignore_errors=True)

    def configure(self, *settings, expect=0):
        # Nothing of this machine's Sluice but what the test names, and no LLVM: an executor needs none.
        return run(self.cmake, "-S", self.source, "-B", self.build_folder, "-G", self.generator,
                   f"-DCMAKE_CXX_COMPILER={self.compiler}", "-DCMAKE_CXX_FLAGS=-O0 -Wall -Wextra -Werror",
                   "-DCMAKE_DISABLE_FIND_PACKAGE_LLVM=ON", "-DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON", *settings, expect=expect)

    def build(self, expect=0):
        return Built(run(self.cmake, "--build", self.build_folder, "--parallel", "2", expect=expect))

    def program(self):
        return run(self.build_folder / "consumer")

    def generated(self):
        """Name and bytes of all generated files."""
        folder = self.build_folder / "sluice_generated"
        return {str(path.relative_to(folder)): path.read_bytes()
                for path in sorted(folder.rglob("*")) if path.suffix in (".h", ".cpp")}

    def path(self, name):
        return self.source / name

    def touch(self, name):
        os.utime(self.path(name))

    def edit(self, name, old, new):
        text = self.path(name).read_text()
        if old not in text:
            raise SystemExit(f"{name} does not hold {old}")
        self.path(name).write_text(text.replace(old, new))


def check(condition, what, built=""):
    if not condition:
        raise SystemExit(f"{what}\n{built}")
