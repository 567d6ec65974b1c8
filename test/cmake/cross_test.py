"""A build for another machine: the runtime's headers lie among that machine's files, the tool runs on this one."""

import os
import shutil
from pathlib import Path

from projects import Project, check, fresh, install, options, run

# Its compiler is this machine's: what matters here is where CMake looks for things.
TOOLCHAIN = """\
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR another)
set(CMAKE_FIND_ROOT_PATH "{root}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
"""


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)
    path.chmod(0o755)
    return path


def without_tools():
    """The search path without any sluice of this machine."""
    folders = os.environ["PATH"].split(os.pathsep)
    return os.pathsep.join(folder for folder in folders if not (Path(folder) / "sluice").exists())


def builds(project, *settings):
    project.configure(*settings)
    project.build()
    check("pipeline: 4 devices, 16 microbatches" in project.program(), "executors are generated")
    check(project.build().nothing(), "a second build does nothing")


def refuses(project, said, *settings):
    output = " ".join(project.configure(*settings, expect=1).split())
    check(said in output, f"what is wrong is said: {said}", output)
    shutil.rmtree(project.build_folder)


def files(prefix):
    return {str(path.relative_to(prefix)) for path in prefix.rglob("*") if path.is_file()}


def lacks(given, work, prefix, components, said):
    folder = fresh(work / "lacks")
    (folder / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(Lacks LANGUAGES CXX)\n"
                                           f"find_package(Sluice REQUIRED {components})\n")
    output = run(given.cmake, "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={prefix}", expect=1)
    check(said in " ".join(output.split()), f"what is not there is said: {said}", output)


def main():
    given = options("--build", "--sources")
    work = fresh(given.work)
    root = work / "root"
    install(given.cmake, given.build, root / "usr", "Runtime")
    # A tool of the other machine, which this one cannot run.
    foreign = program(root / "usr/bin/sluice", b"\x7fELF of another machine")
    tool = install(given.cmake, given.build, work / "host", "Tool") / "bin/sluice"
    (work / "toolchain.cmake").write_text(TOOLCHAIN.format(root=root))
    cross = f"-DCMAKE_TOOLCHAIN_FILE={work}/toolchain.cmake"
    os.environ["PATH"] = without_tools()

    project = Project(given, work / "project", "Ninja")
    refuses(project, "there is no tool `sluice` that runs on this machine. Set SLUICE_EXECUTABLE to one", cross)
    refuses(project, "there is no tool `sluice` that runs on this machine", cross, f"-DCMAKE_PREFIX_PATH={root}/usr")
    refuses(project, "it does not run here", cross, f"-DSLUICE_EXECUTABLE={foreign}")
    old = program(work / "old/sluice", b"#!/bin/sh\necho sluice 0.0.7\n")
    refuses(project, f"SLUICE_EXECUTABLE is {old}: sluice 0.0.7 Set it to a sluice 0.", cross,
            f"-DSLUICE_EXECUTABLE={old}")
    builds(project, cross, f"-DSLUICE_EXECUTABLE={tool}")

    # One that lies on the search path is found, behind one of another version.
    shutil.rmtree(project.build_folder)
    os.environ["PATH"] = os.pathsep.join([str(old.parent), str(tool.parent), without_tools()])
    builds(project, cross)
    os.environ["PATH"] = without_tools()

    # From sources: nothing of the compiler is built for the other machine.
    shutil.rmtree(project.build_folder)
    builds(project, cross, f"-DSLUICE_FOLDER={given.sources}", f"-DSLUICE_EXECUTABLE={tool}")

    # The runtime from sources, where there is no LLVM, fmt or ANTLR.
    alone = work / "runtime alone"
    run(given.cmake, "-S", given.sources, "-B", alone, "-DSLUICE_RUNTIME_ONLY=ON", f"-DCMAKE_CXX_COMPILER={given.compiler}",
        "-DCMAKE_DISABLE_FIND_PACKAGE_LLVM=ON", "-DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON", "-DANTLR4=ANTLR4-NOTFOUND")
    run(given.cmake, "--install", alone, "--prefix", work / "installed alone")
    check(sorted(files(work / "installed alone")) == sorted(files(root / "usr") - {"bin/sluice"}),
          "the same files as the component Runtime")

    # What is not there is said by name.
    lacks(given, work, root / "usr", "", "its libraries are not installed; executors need find_package(Sluice COMPONENTS "
                                         "Runtime)")
    lacks(given, work, work / "installed alone", "COMPONENTS Runtime Tool", "set SLUICE_EXECUTABLE to one")


main()
