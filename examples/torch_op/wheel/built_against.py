# SPDX-License-Identifier: Apache-2.0
"""Which torch a wheel is built against: asked by the build back end, and by CMake, which runs this file.

The library is linked against the torch that it is to be used with. An isolated build does not see that: pip hides the
environment that it installs into. It is looked for there all the same, so that nothing is downloaded where torch is.
Only where there is none it becomes a requirement of the build.
"""
import json
import os
import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path


def visible_torch():
    """The torch that this interpreter imports: version, CUDA version or None, folder. None if there is none."""
    found = find_spec("torch")
    if found is None or found.origin is None:
        return None
    root = Path(found.origin).parent
    version = runpy.run_path(str(root / "version.py"))
    return {"version": version["__version__"], "cuda": version.get("cuda"), "root": str(root)}


def torch_of_build():
    """The same, or else what the environment has that an isolated build hides."""
    here = visible_torch()
    if here is not None:
        return here
    hidden = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONNOUSERSITE")}
    said = subprocess.run([sys.executable, __file__, "--visible"], env=hidden, stdout=subprocess.PIPE, text=True,
                          check=True)
    return json.loads(said.stdout)


def get_requires_for_dynamic_metadata(settings):
    return [] if torch_of_build() else ["torch"]


def dynamic_metadata(settings, project):
    major, minor = torch_of_build()["version"].split(".")[:2]
    return {"dependencies": [f"torch=={major}.{minor}.*"]}


if __name__ == "__main__":
    json.dump(visible_torch() if "--visible" in sys.argv else torch_of_build(), sys.stdout)
