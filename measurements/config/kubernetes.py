"""Kubernetes manifests: containers with an image, an environment, a command and arguments."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from measurements.config.flags import Joint
from measurements.config.found import Found, Survey
from measurements.config.nodes import (
    Chained,
    dress,
    entries,
    entry_end,
    entry_sibling,
    entry_whole,
    get,
    listed,
    outer,
    text_of,
    trace,
    writer,
)
from measurements.config.secrets import SECRET, redact
from measurements.config.shell import read_argv
from measurements.config.trace import Source, Stretch, Traced
from measurements.config.words import Variables, Word
from measurements.records import Place, Setting

_REFERENCE: Final = re.compile(r"\$\$\(|\$\((?P<name>[A-Za-z_][A-Za-z0-9_.\-]*)\)")
_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*")
_DASH: Final = re.compile(r"[ \t]*-[ \t]+")
_DEEPEST: Final = 24


def read_kubernetes(source: Source, roots: list[Node], survey: Survey) -> None:
    """Add the settings of every container, and of the config maps they take. Secrets are never read.

    Raises ReadError, with the line, on a quote without its end in a shell command.
    """
    objects = [item for root in roots for item in _objects(root)]
    maps = {}
    for item in objects:
        kind = text_of(get(item, "kind"))
        if kind == "ConfigMap":
            maps[text_of(get(item, "metadata", "name"))] = get(item, "data")
        elif kind == "Secret":
            for part in ("data", "stringData"):
                for _, value in entries(get(item, part)):
                    if isinstance(value, ScalarNode):
                        survey.hide(Traced.of(*outer(source, value)))
    containers = [(text_of(get(item, "metadata", "name")), node)
                  for item in objects for node in _containers(item)]
    names = Counter(text_of(get(node, "name")) for _, node in containers)
    for owner, node in containers:
        name = text_of(get(node, "name"))
        scope = name if names[name] == 1 else f"{owner}/{name}"
        _Container(source, survey, maps, scope, node).read()
    if not containers:
        for data in maps.values():  # a file of its own, for containers described elsewhere
            _Container(source, survey, {}, "", data).config_map(data, "")


def _objects(root: Node) -> Iterator[Node]:
    items = get(root, "items")
    if text_of(get(root, "kind")).endswith("List") and isinstance(items, SequenceNode):
        yield from items.value
    else:
        yield root


def _containers(root: Node) -> Iterator[Node]:
    """The containers of every pod that an object describes, whatever kind of object it is."""
    seen, waiting = set[int](), [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        if id(node) in seen or depth > _DEEPEST:
            continue
        seen.add(id(node))
        for key, value in reversed(entries(node)):
            if key.value == "containers" and isinstance(value, SequenceNode):
                yield from (item for item in value.value if isinstance(item, MappingNode))
            elif isinstance(value, MappingNode):
                waiting.append((value, depth + 1))


class _Container:
    def __init__(self, source: Source, survey: Survey, maps: dict[str, Node | None], scope: str,
                 node: Node | None) -> None:
        self.source, self.survey, self.maps, self.scope, self.node = source, survey, maps, scope, node
        self.inside = Variables()

    def read(self) -> None:
        image = get(self.node, "image")
        if isinstance(image, ScalarNode):
            self.survey.images.append((redact(image.value), self.source.place(image.start_mark.index),
                                       self.scope))
        sources = get(self.node, "envFrom")
        for item in sources.value if isinstance(sources, SequenceNode) else []:
            self._env_from(item)
        env = get(self.node, "env")
        if isinstance(env, SequenceNode):
            for item in env.value:
                self._env(env, item)
        self._command()

    def _env_from(self, item: Node) -> None:
        place = self.source.place(item.start_mark.index)
        name = text_of(get(item, "configMapRef", "name"))
        if name in self.maps:
            self.config_map(self.maps[name], text_of(get(item, "prefix")))
        elif name:
            self.survey.warn(place, f"the config map {name} is not in this file: its settings are not read")
        elif get(item, "secretRef") is not None:
            self.survey.warn(place, "settings that come from a Secret are not read")

    def config_map(self, data: Node | None, prefix: str) -> None:
        for key, item in entries(data):
            if not isinstance(item, ScalarNode) or not _KEY.fullmatch(key.value) or "\n" in item.value:
                continue  # a whole file, not a setting
            value = trace(self.source, item)
            name = prefix + key.value
            self.inside.values[name] = value
            place = self.source.place(key.start_mark.index)
            setting = self._setting(name, value, outer(self.source, item), place)
            assert isinstance(data, MappingNode)  # only a mapping has entries
            behind = None if prefix else entry_sibling(self.source, data, key, item)
            self.survey.add(Found(setting, entry_whole(self.source, data, key, item),
                                  behind[0] if behind else None, behind[1] if behind else None,
                                  writer(self.source, item, value)))

    def _env(self, env: SequenceNode, item: Node) -> None:
        name, node = get(item, "name"), get(item, "value")
        if not isinstance(name, ScalarNode):
            return
        place = self.source.place(name.start_mark.index)
        if isinstance(node, ScalarNode):
            value = self._expand(trace(self.source, node))
            self.inside.values[name.value] = value
            setting = self._setting(name.value, value, outer(self.source, node), place)
            behind = self._behind(env, item, name, node)
            self.survey.add(Found(setting, self._whole(env, item),
                                  behind[0] if behind else None, behind[1] if behind else None,
                                  writer(self.source, node, value)))
            return
        reference = get(item, "valueFrom", "configMapKeyRef")
        wanted = get(self.maps.get(text_of(get(reference, "name"))), text_of(get(reference, "key")))
        if isinstance(wanted, ScalarNode):
            value = trace(self.source, wanted)
            self.inside.values[name.value] = value
            setting = self._setting(name.value, value, outer(self.source, name), place)
            self.survey.add(Found(setting, write=writer(self.source, wanted, value)))
        elif get(item, "valueFrom", "secretKeyRef") is not None:
            self.survey.add(Found(self._setting(name.value, Traced.bare(SECRET), None, place)))
        elif reference is not None:
            self.survey.warn(place, f"{name.value} comes from a config map that is not in this file")

    def _setting(self, key: str, value: Traced, home: Stretch | None, place: Place) -> Setting:
        return self.survey.setting(key, value, home, "env", self.scope, place=place)

    def _tail(self, item: Node) -> int | None:
        """Where an item of ``env`` ends, when it holds a name and a value and nothing else."""
        if not isinstance(item, MappingNode) or len(item.value) != 2:
            return None
        if item.flow_style:
            return item.end_mark.index
        ends = [entry_end(self.source, key, value) for key, value in item.value]
        return None if None in ends else ends[-1]

    def _whole(self, env: SequenceNode, item: Node) -> Stretch | None:
        end = self._tail(item)
        index = next(i for i, other in enumerate(env.value) if other is item)
        if end is None or len(env.value) < 2:
            return None
        start = item.start_mark.index
        if not env.flow_style:
            line = self.source.line_start(start)
            alone = _DASH.fullmatch(self.source.text, line, start)
            return Stretch(self.source, line, self.source.next_line(end)) if alone else None
        if index:
            return Stretch(self.source, env.value[index - 1].end_mark.index, end)
        return Stretch(self.source, start, env.value[1].start_mark.index)

    def _behind(self, env: SequenceNode, item: Node, name: ScalarNode,
                node: ScalarNode) -> tuple[Stretch, Callable[[str, str], str]] | None:
        """Where another item of ``env`` may be put behind this one, and how it is written."""
        end = self._tail(item)
        if end is None or not isinstance(item, MappingNode):
            return None
        source, start = self.source, item.start_mark.index
        first, second = (key for key, _ in item.value)
        names = (dress("name", first), dress("value", second))
        line = source.line_start(start)
        lead = source.text[line:start]
        newline = source.newline(end)
        if env.flow_style:
            glue, stop = ", ", end
        elif _DASH.fullmatch(lead):
            glue, stop = newline + lead, source.line_end(end)
        else:
            return None
        if item.flow_style:
            return Stretch(source, stop, stop), lambda k, v: (
                f"{glue}{{{names[0]}: {dress(k, name)}, {names[1]}: {dress(v, node)}}}")
        return Stretch(source, stop, stop), lambda k, v: (
            f"{glue}{names[0]}: {dress(k, name)}{newline}{' ' * len(lead)}{names[1]}: {dress(v, node)}")

    def _expand(self, value: Traced) -> Traced:
        """``$(NAME)`` replaced by the container's own variables."""
        parts, position = list[Traced](), 0
        for match in _REFERENCE.finditer(value.value):
            known = self.inside.get(match["name"]) if match["name"] else Traced.bare("$(")
            if isinstance(known, Traced):
                parts += [value.cut(position, match.start()), known]
                position = match.end()
        return Traced.join([*parts, value.cut(position, len(value.value))]) if parts else value

    def _command(self) -> None:
        words, parts = list[Word](), list[tuple[int, Joint]]()
        for name in ("command", "args"):
            node = get(self.node, name)
            if isinstance(node, SequenceNode):
                self.survey.here = self.source.place(node.start_mark.index)
                more, joint = listed(self.source, node, self._expand)
                words += more
                parts.append((len(more), joint))
        if words:
            read_argv(words, Chained(parts), self.survey, self.inside, self.source, self.scope)
        self.survey.here = None
