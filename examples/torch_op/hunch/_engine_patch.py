# SPDX-License-Identifier: Apache-2.0
"""Functions of an engine, replaced while it runs: checked first, all or none, and put back on demand.

What `hunch.vllm` and `hunch.sglang` have in common.
"""
import functools
import importlib
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
    """Puts `new` wherever a module of `package` holds `old`. Returns in how many places."""
    places = 0
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] != package or not isinstance(module, types.ModuleType):
            continue
        for attribute, value in list(vars(module).items()):
            if value is old:
                setattr(module, attribute, new)
                places += 1
    return places


class Patch:
    """The functions of one engine that are replaced together.

    `versions`: those of the engine whose source has been read. A signature does not say what a tensor means, so that
    another version is refused even if its signatures agree, unless `any_version`.
    """

    def __init__(self, package, versions):
        self._package = package
        self._versions = versions
        self._replaced = []

    @property
    def is_applied(self):
        return bool(self._replaced)

    def apply(self, targets, any_version=False):
        """Replaces all targets, or raises InterfaceDiffers and replaces none. A second call does nothing."""
        if self.is_applied:
            return
        pairs = self._checked(targets, any_version)
        for theirs, target in pairs:
            ours = _in_place_of(theirs, target.ours)
            _exchange(theirs, ours, self._package)
            self._replaced.append((theirs, ours))

    def undo(self):
        """Puts the engine's functions back, also into modules that were imported in between."""
        while self._replaced:
            theirs, ours = self._replaced.pop()
            _exchange(ours, theirs, self._package)

    def _checked(self, targets, any_version):
        found, pairs = [], []
        version = getattr(importlib.import_module(self._package), "__version__", "without a number")
        if not any_version and version not in self._versions:
            found.append(f"version {version} has not been read, {', '.join(self._versions)} has")
        for target in targets:
            try:
                theirs = getattr(importlib.import_module(target.module), target.name)
            except (ImportError, AttributeError) as error:
                found.append(f"{target} is not there ({error})")
                continue
            found += [f"{target}: {what}" for what in differences(theirs, target.ours)]
            pairs.append((theirs, target))
        if found:
            raise InterfaceDiffers(f"{self._package} is left as it is: " + "; ".join(found))
        return pairs


def _in_place_of(theirs, ours):
    @functools.wraps(theirs)
    def replaced(*args, **kwargs):
        result = ours(*args, **kwargs)
        return theirs(*args, **kwargs) if result is NotImplemented else result
    return replaced


def from_plugin(register, variable):
    """What an entry point does: registers as the environment variable says, "on", "off" or "any_version".

    The package may be installed for its operators alone, beside an engine that it does not know: this is a warning,
    and no reason for the engine not to start. Another value of the variable is a ValueError.
    """
    asked = os.environ.get(variable, "on")
    if asked not in ("on", "off", "any_version"):
        raise ValueError(f"{variable} must be on, off or any_version, it is {asked!r}")
    if asked == "off":
        return
    try:
        register(any_version=asked == "any_version")
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
