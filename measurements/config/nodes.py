"""YAML with the place of every scalar: what compose and Kubernetes files are read from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from measurements.config.file import ODD
from measurements.config.flags import Joint
from measurements.config.found import as_is
from measurements.config.trace import Piece, Source, Stretch, Traced
from measurements.config.words import Word
from measurements.records import ReadError

# What Kubernetes itself can store; the parser takes minutes for more than a few of these.
_MOST_CHARACTERS: Final = 1 << 20
_PROPERTIES: Final = re.compile(r"(?:[&!]\S*\s+)*")
_COLON: Final = re.compile(r"\s*:\s+(?:[&!]\S*\s+)*")
_DASH: Final = re.compile(r"[ \t]*(?:-[ \t]+)+")
_STRING: Final = "tag:yaml.org,2002:str"
_RESOLVER: Final = yaml.resolver.Resolver()


def documents(source: Source) -> list[Node]:
    """The documents of a YAML file. Raises ReadError, with the line, when it is not valid YAML."""
    if len(source.text) > _MOST_CHARACTERS:
        raise ReadError("larger than 1 MiB: give only the part that configures the server", file=source.file)
    try:
        plain = ODD.sub("\ufffd", source.text)  # one character for one: every place stays true
        return [node for node in yaml.compose_all(plain, yaml.SafeLoader) if node is not None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise ReadError("not valid YAML here: check the indentation, the quotes and the colons",
                        file=source.file, line=None if mark is None else source.line(mark.index)) from None
    except (yaml.YAMLError, ValueError, OverflowError):
        raise ReadError("not valid YAML: it holds a character or an escape that YAML does not allow",
                        file=source.file) from None


def entries(node: Node | None) -> list[tuple[ScalarNode, Node]]:
    """Keys and values of a mapping, merged ones (``<<``) first; none of anything else."""
    return _entries(node, set())


def _entries(node: Node | None, seen: set[int]) -> list[tuple[ScalarNode, Node]]:
    if not isinstance(node, MappingNode) or id(node) in seen:
        return []
    seen.add(id(node))
    own, merged = [], dict[str, tuple[ScalarNode, Node]]()
    for key, value in node.value:
        if not isinstance(key, ScalarNode):
            continue
        if key.value == "<<" and key.style is None:
            for other in value.value if isinstance(value, SequenceNode) else [value]:
                for pair in _entries(other, seen):
                    merged.setdefault(pair[0].value, pair)  # the first of several merged mappings counts
        else:
            own.append((key, value))
    names = {key.value for key, _ in own}
    return [pair for name, pair in merged.items() if name not in names] + own


def get(node: Node | None, *path: str) -> Node | None:
    """The value under ``path``, None where there is none."""
    for name in path:
        node = next((value for key, value in reversed(entries(node)) if key.value == name), None)
    return node


def text_of(node: Node | None) -> str:
    """The text of a scalar; "" of anything else."""
    return str(node.value) if isinstance(node, ScalarNode) else ""


def is_null(node: Node) -> bool:
    """Whether a value was left out."""
    return node.tag == "tag:yaml.org,2002:null"


def scalars(node: Node | None) -> Iterator[ScalarNode]:
    """The scalars of a list, or the one that stands instead of it."""
    for item in node.value if isinstance(node, SequenceNode) else [node]:
        if isinstance(item, ScalarNode):
            yield item


def outer(source: Source, node: Node) -> Stretch:
    """The stretch that writes a scalar, quotes included, anchors and tags not."""
    start, end = node.start_mark.index, node.end_mark.index
    if source.text[start:start + 1] in ("&", "!"):
        properties = _PROPERTIES.match(source.text, start, end)
        start = properties.end() if properties else start
    return Stretch(source, start, end)


def ways_to(source: Source, offset: int) -> int:
    """How many places of the document take the scalar at ``offset``: more than one where an anchor is used again.

    Keys of compose that begin with ``x-`` only keep text to be used elsewhere.
    """
    counts: dict[int, int] = {}

    def ways(node: Node, top: bool) -> int:
        if isinstance(node, ScalarNode):
            return int(node.start_mark.index <= offset < max(node.end_mark.index, node.start_mark.index + 1))
        if id(node) not in counts:
            counts[id(node)] = 0  # what holds itself leads nowhere
            counts[id(node)] = sum(
                ways(item, False) if isinstance(item, Node) else ways(item[0], False) + ways(item[1], False)
                for item in node.value if not (top and isinstance(item, tuple) and text_of(item[0]).startswith("x-")))
        return counts[id(node)]

    return sum(ways(root, True) for root in documents(source))


def trace(source: Source, node: ScalarNode) -> Traced:
    """A scalar's value with the place of its characters, as far as they stand in the file as such."""
    _, start, end = outer(source, node)
    text, value = source.text, str(node.value)
    if node.style in ("'", '"'):
        start, end = start + 1, end - 1
    elif node.style in ("|", ">"):
        start = min(source.next_line(start), end)
    if text[start:end] == value:
        return Traced.of(source, start, end)
    # Folded or indented: the words are there one by one, and only the white space between them differs.
    pieces, here, there = list[Piece](), 0, start
    for match in re.finditer(r"\S+", value):
        at = text.find(match[0], there, end)
        if at < 0 or text[there:at].strip():
            return Traced.bare(value)
        gap = value[here:match.start()]
        pieces.append(Piece(gap, source, there) if gap == text[there:at] else Piece(gap, None, 0))
        pieces.append(Piece(match[0], source, at))
        here, there = match.end(), at + len(match[0])
    if text[there:end].strip():
        return Traced.bare(value)
    return Traced([*pieces, Piece(value[here:], None, 0)])


def dress(value: str, like: ScalarNode) -> str:
    """``value`` as a scalar written the way ``like`` is, quoted where YAML would read something else."""
    if like.style in ("'", '"'):
        return f"{like.style}{value}{like.style}"
    tag = _RESOLVER.resolve(ScalarNode, value, (True, False))  # type: ignore[no-untyped-call]
    return value if like.style is None and tag in (_STRING, like.tag) else f'"{value}"'


def writer(source: Source, node: ScalarNode, value: Traced) -> Callable[[str], str]:
    """How a new value is written where ``value`` stands: a plain scalar may need quotes from now on."""
    span = value.span()
    if node.style is None and span is not None and span == outer(source, node):
        return lambda new: dress(new, node)
    return as_is


def entry_end(source: Source, key: ScalarNode, value: Node) -> int | None:
    """Where an entry of a mapping ends; None when its value stands elsewhere or is a block."""
    if not isinstance(value, ScalarNode) or value.style in ("|", ">"):
        return None
    _, start, end = outer(source, value)
    return end if _COLON.fullmatch(source.text, key.end_mark.index, start) else None


def entry_whole(source: Source, mapping: MappingNode, key: ScalarNode, value: Node) -> Stretch | None:
    """What to delete to be rid of an entry of a mapping; None for its only one."""
    end = entry_end(source, key, value)
    pairs = mapping.value
    index = next((i for i, (other, _) in enumerate(pairs) if other is key), None)
    if end is None or index is None or len(pairs) < 2:
        return None
    start = key.start_mark.index
    if not mapping.flow_style:
        line = source.line_start(start)
        return Stretch(source, line, source.next_line(end)) if not source.text[line:start].strip() else None
    if index:
        before = pairs[index - 1][1].end_mark.index
        return Stretch(source, before, end) if before < start else None
    return Stretch(source, start, pairs[1][0].start_mark.index)


def entry_sibling(source: Source, mapping: MappingNode, key: ScalarNode,
                  value: Node) -> tuple[Stretch, Callable[[str, str], str]] | None:
    """Where another entry may be put behind this one, and how it is written."""
    end = entry_end(source, key, value)
    merged = all(other is not key for other, _ in mapping.value)
    if end is None or merged or not isinstance(value, ScalarNode):
        return None
    if mapping.flow_style:
        return Stretch(source, end, end), lambda k, v: f", {dress(k, key)}: {dress(v, value)}"
    stop = source.line_end(end)
    lead = source.newline(end) + " " * (key.start_mark.index - source.line_start(key.start_mark.index))
    return Stretch(source, stop, stop), lambda k, v: f"{lead}{dress(k, key)}: {dress(v, value)}"


@dataclass(frozen=True, slots=True)
class Listed:
    """Words that are the items of a YAML list."""

    source: Source
    flow: bool
    nodes: Sequence[ScalarNode]

    def _lead(self, index: int) -> str | None:
        """What stands before an item on its line, its dash included; None when it is not alone there."""
        start = self.nodes[index].start_mark.index
        lead = self.source.text[self.source.line_start(start):start].lstrip("\ufeff")
        return lead if _DASH.fullmatch(lead) and lead.count("-") == 1 else None

    def whole(self, first: int, last: int) -> Stretch | None:
        """The items' own lines, or in brackets the items and a comma."""
        nodes, source = self.nodes, self.source
        start, end = nodes[first].start_mark.index, nodes[last].end_mark.index
        marks = [mark.index for node in nodes[first:last + 1] for mark in (node.start_mark, node.end_mark)]
        if len(nodes) == last - first + 1 or marks != sorted(marks) or nodes[last].style in ("|", ">"):
            return None
        if not self.flow:
            if any(self._lead(i) is None for i in range(first, last + 1)):
                return None
            return Stretch(source, source.line_start(start), source.next_line(end))
        if first:
            before = nodes[first - 1].end_mark.index
            return Stretch(source, before, end) if before < start else None
        following = nodes[last + 1].start_mark.index
        return Stretch(source, start, following) if following > end else None

    def after(self, last: int) -> Stretch | None:
        """Behind the item, or behind its line."""
        node = self.nodes[last]
        if node.style in ("|", ">") or (not self.flow and self._lead(last) is None):
            return None
        end = node.end_mark.index if self.flow else self.source.line_end(node.end_mark.index)
        return Stretch(self.source, end, end)

    def sibling(self, first: int, last: int) -> Callable[[str, str], str]:
        """Two items where the flag and its value are two, else one with an equals sign."""
        one, two = self.nodes[first], self.nodes[last]
        glue = ", " if self.flow else self.source.newline(two.end_mark.index) + (self._lead(last) or "- ")
        if first == last:
            return lambda key, value: glue + dress(f"{key}={value}", one)
        return lambda key, value: glue + dress(key, one) + glue + dress(value, two)

    def write(self, index: int, value: Traced) -> Callable[[str], str]:
        """As it is, or quoted where a plain item would become something else than text."""
        return writer(self.source, self.nodes[index], value)


@dataclass(frozen=True, slots=True)
class Chained:
    """Words of which the first come from one place and the rest from another: entrypoint and command."""

    parts: Sequence[tuple[int, Joint]]

    def _at(self, index: int) -> tuple[int, Joint]:
        """The first index of the part that holds ``index``, and the part."""
        begin = 0
        for count, joint in self.parts:
            if index < begin + count:
                return begin, joint
            begin += count
        raise IndexError(index)

    def whole(self, first: int, last: int) -> Stretch | None:
        """As the part that holds them has it; nothing across two."""
        begin, joint = self._at(first)
        return joint.whole(first - begin, last - begin) if self._at(last)[0] == begin else None

    def after(self, last: int) -> Stretch | None:
        """As the part that holds it has it."""
        begin, joint = self._at(last)
        return joint.after(last - begin)

    def sibling(self, first: int, last: int) -> Callable[[str, str], str]:
        """As the part that holds the last of them has it."""
        begin, joint = self._at(last)
        return joint.sibling(max(first - begin, 0), last - begin)

    def write(self, index: int, value: Traced) -> Callable[[str], str]:
        """As the part that holds it has it."""
        begin, joint = self._at(index)
        return joint.write(index - begin, value)


def listed(source: Source, node: SequenceNode,
           expand: Callable[[Traced], Traced]) -> tuple[list[Word], Listed]:
    """The scalar items of a list as words."""
    nodes = list(scalars(node))
    words = [Word(expand(trace(source, item)), outer(source, item)) for item in nodes]
    return words, Listed(source, bool(node.flow_style), nodes)
