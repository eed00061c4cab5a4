# SPDX-License-Identifier: Apache-2.0
"""Functions of an engine, replaced while it runs: checked first, all or none, and put back on demand.

What `hunch.vllm` and `hunch.sglang` have in common.
"""
import functools
import importlib.abc
import importlib.util
import inspect
import logging
import os
import sys
import types
from typing import Callable, NamedTuple

import torch

log = logging.getLogger("hunch")


class InterfaceDiffers(RuntimeError):
    """The engine that is installed is not one that can be patched; the message says what differs."""


class Target(NamedTuple):
    """A function of an engine and what stands in for it.

    `ours` has the engine's signature, and returns NotImplemented where it leaves a call to the engine.
    """
    module: str
    name: str
    ours: Callable

    def __str__(self):
        return f"{self.module}.{self.name}"


def _parameters(function):
    """The parameters as they can be written in a call: kind, name and default of each."""
    keyword_only = inspect.Parameter.KEYWORD_ONLY
    return {p.name: (p.kind is keyword_only, p.default) for p in inspect.signature(function).parameters.values()}


def differences(theirs, ours):
    """What differs between two signatures, annotations aside, a phrase each; empty if nothing does."""
    there, here = _parameters(theirs), _parameters(ours)
    found = [f"it lacks {name}" for name in here if name not in there]
    found += [f"it has {name} besides" for name in there if name not in here]
    for name in here:
        if name in there and there[name] != here[name]:
            found.append(f"{name} is declared otherwise")
    if not found and list(there) != list(here):
        found.append(f"its order is {', '.join(there)}")
    return found


def _exchange(old, new, package):
    """Puts `new` wherever a module of `package` holds `old`."""
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] != package or not isinstance(module, types.ModuleType):
            continue
        for attribute, value in list(vars(module).items()):
            if value is old:
                setattr(module, attribute, new)


class Patch:
    """The functions of one engine that are replaced together.

    `versions`: those of the engine whose source has been read. A signature does not say what a tensor means, so that
    another version is refused even if its signatures agree, unless `any_version`.
    """

    def __init__(self, package, versions):
        self._package = package
        self._versions = versions
        self._replaced = []
        self._waiting = None

    @property
    def is_applied(self):
        """Whether a function is replaced, or will be when its module is imported."""
        return bool(self._replaced or (self._waiting and self._waiting.targets))

    def apply(self, targets, any_version=False):
        """Replaces all targets, or raises InterfaceDiffers and replaces none. A second call does nothing."""
        if self.is_applied:
            return
        self.undo()
        found = self._version_differs(any_version)
        for target in targets:
            try:
                importlib.import_module(target.module)
            except ImportError as error:
                found.append(f"{target} is not there ({error})")
            else:
                found += _differs(target)
        self._refuse(found)
        for target in targets:
            self._replace(target)

    def apply_when_imported(self, targets, any_version=False):
        """Replaces each target as soon as the engine has imported its module, and imports nothing by itself.

        Raises InterfaceDiffers if the version is refused. A function that differs is left, with a warning.
        """
        if self.is_applied:
            return
        self.undo()
        self._refuse(self._version_differs(any_version))
        waiting = {}
        for target in targets:
            if target.module in sys.modules:
                self._replace_or_warn(target)
            else:
                waiting.setdefault(target.module, []).append(target)
        self._waiting = _AfterImport(waiting, self._replace_or_warn)
        sys.meta_path.insert(0, self._waiting)

    def undo(self):
        """Puts the engine's functions back, also into modules that were imported in between."""
        if self._waiting:
            sys.meta_path.remove(self._waiting)
            self._waiting.targets.clear()  # also for modules that were found and have not run
            self._waiting = None
        while self._replaced:
            theirs, ours = self._replaced.pop()
            _exchange(ours, theirs, self._package)

    def _version_differs(self, any_version):
        version = getattr(importlib.import_module(self._package), "__version__", "without a number")
        # What follows a + says where it was built, and for what.
        if any_version or version.split("+")[0] in self._versions:
            return []
        return [f"version {version} has not been read, {', '.join(self._versions)} has"]

    def _refuse(self, found):
        if found:
            raise InterfaceDiffers(f"{self._package} is left as it is: " + "; ".join(found))

    def _replace(self, target):
        theirs = getattr(sys.modules[target.module], target.name)
        ours = _in_place_of(theirs, target.ours)
        _exchange(theirs, ours, self._package)
        self._replaced.append((theirs, ours))

    def _replace_or_warn(self, target):
        found = _differs(target)
        if found:
            log.warning("hunch: %s is left as it is: %s", target.name, "; ".join(found))
        else:
            self._replace(target)


def _differs(target):
    """What differs at a target whose module has been imported."""
    theirs = getattr(sys.modules[target.module], target.name, None)
    if theirs is None:
        return [f"{target} is not there"]
    return [f"{target}: {what}" for what in differences(theirs, target.ours)]


def _in_place_of(theirs, ours):
    @functools.wraps(theirs)
    def replaced(*args, **kwargs):
        result = ours(*args, **kwargs)
        return theirs(*args, **kwargs) if result is NotImplemented else result
    return replaced


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls `then(target)` for the targets of a module right after the module has run; imports stay as they are.

    A module may be looked for without being imported, and its first import may fail: it is waited for until it has run.
    """

    def __init__(self, targets, then):
        self.targets, self._then = targets, then  # targets: those of each module that is still to come
        self._asking = set()  # modules that the other finders are asked for

    def find_spec(self, name, path=None, target=None):
        if name not in self.targets or name in self._asking:
            return None
        self._asking.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._asking.remove(name)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def run_and_tell(module):
            run(module)
            # A loader may be that of other modules, too, and be called by others than an import.
            if sys.modules.get(name) is module:
                for found in self.targets.pop(name, ()):
                    self._then(found)
        spec.loader.exec_module = run_and_tell
        return spec


def from_plugin(patch, targets, variable):
    """What an entry point does: patches as the environment variable says, "on", "off" or "any_version".

    The package may be installed for its operators alone, beside an engine that it does not know: this is a warning,
    and no reason for the engine not to start. Another value of the variable is a ValueError. An engine loads its
    plugins in all of its processes, also where nothing is sampled, so that none of its modules is imported here.
    """
    asked = os.environ.get(variable, "on")
    if asked not in ("on", "off", "any_version"):
        raise ValueError(f"{variable} must be on, off or any_version, it is {asked!r}")
    if asked == "off":
        return
    try:
        patch.apply_when_imported(targets, any_version=asked == "any_version")
    except InterfaceDiffers as differs:
        log.warning("hunch: %s", differs)


class StatusCounts:
    """Counts the statuses of requests on their device; nothing waits until they are read."""

    def __init__(self, names):
        self._names = names
        self._by_device = {}

    def add(self, status):
        """status: uint8 [R]."""
        codes = status.long()
        if status.device not in self._by_device:
            self._by_device[status.device] = codes.new_zeros(len(self._names))
        self._by_device[status.device].scatter_add_(0, codes, torch.ones_like(codes))

    def read(self):
        """The counts by name, of all devices. Waits for the devices."""
        totals = [0] * len(self._names)
        for counts in self._by_device.values():
            totals = [a + b for a, b in zip(totals, counts.tolist())]
        return dict(zip(self._names, totals))
