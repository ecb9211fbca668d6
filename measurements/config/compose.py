"""Compose files: services with an image, an environment and a command."""

from __future__ import annotations

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from measurements.config.detect import dialect
from measurements.config.env import read_env
from measurements.config.flags import Joint, Spaced
from measurements.config.found import Found, Survey
from measurements.config.nodes import (
    Chained,
    entries,
    entry_sibling,
    entry_whole,
    get,
    is_null,
    listed,
    outer,
    scalars,
    text_of,
    trace,
    writer,
)
from measurements.config.secrets import redact
from measurements.config.shell import read_argv, read_beside
from measurements.config.trace import Source, Traced
from measurements.config.words import Lexer, Variables, Word


def read_compose(source: Source, root: Node, survey: Survey) -> None:
    """Add the settings of every service. Raises ReadError, with the line, on a quote without its end."""
    known = _interpolation(source, survey)
    for name, service in entries(get(root, "services")):
        _Service(source, survey, known, name.value, service).read()
    for secret in known.secrets:
        survey.hide(secret)


def _interpolation(source: Source, survey: Survey) -> Variables:
    """What ``${NAME}`` stands for: compose takes it from the ``.env`` file beside it."""
    known = Variables()
    beside = survey.beside(source.file, ".env")
    if beside is not None and dialect(beside) == "env":
        aside = Survey(survey.fetch)  # these are not the container's settings
        read_env(beside, aside, known)
        survey.hidden += aside.hidden
    return known


class _Service:
    def __init__(self, source: Source, survey: Survey, known: Variables, scope: str, node: Node) -> None:
        self.source, self.survey, self.known, self.scope, self.node = source, survey, known, scope, node
        self.inside = Variables()  # what a shell in the container finds assigned

    def read(self) -> None:
        image = get(self.node, "image")
        if isinstance(image, ScalarNode):
            written = redact(self._expand(trace(self.source, image)).value)
            self.survey.images.append((written, self.source.place(image.start_mark.index), self.scope))
        if (base := get(self.node, "extends")) is not None:
            self.survey.warn(self.source.place(base.start_mark.index),
                             "what a service takes by extends is not read: name it in the service itself")
        self._env_files()
        environment = get(self.node, "environment")
        if isinstance(environment, SequenceNode):
            self._env_list(environment)
        elif isinstance(environment, MappingNode):
            self._env_map(environment)
        self._command()

    def _expand(self, value: Traced) -> Traced:
        return Lexer(value, self.known, doubled=True).all() if "$" in value.value else value

    def _env_files(self) -> None:
        node = get(self.node, "env_file")
        for item in node.value if isinstance(node, SequenceNode) else [node]:
            path = get(item, "path") if isinstance(item, MappingNode) else item
            if isinstance(path, ScalarNode):
                optional = text_of(get(item, "required")).lower() == "false"
                raw = text_of(get(item, "format")) == "raw"
                read_beside(self.source, self._expand(trace(self.source, path)).value,
                            self.source.line(path.start_mark.index), self.survey, self.inside, self.scope,
                            reader="compose with format: raw" if raw else "compose", optional=optional)

    def _env_list(self, node: SequenceNode) -> None:
        items = list(scalars(node))
        words, joint = listed(self.source, node, self._expand)
        for index, (word, item) in enumerate(zip(words, items, strict=True)):
            key, equals, _ = str(word).partition("=")
            if not equals:
                self._passed(key, item)
                continue
            value = word.value.cut(len(key) + 1, len(str(word)))
            self.inside.values[key] = value
            setting = self.survey.setting(key, value, outer(self.source, item), "env", self.scope,
                                          place=self.source.place(item.start_mark.index))
            self.survey.add(Found(setting, joint.whole(index, index), joint.after(index),
                                  joint.sibling(index, index), joint.write(index, value)))

    def _env_map(self, node: MappingNode) -> None:
        for key, item in entries(node):
            if is_null(item):
                self._passed(key.value, key)
            elif isinstance(item, ScalarNode):
                value = self._expand(trace(self.source, item))
                self.inside.values[key.value] = value
                setting = self.survey.setting(key.value, value, outer(self.source, item), "env", self.scope,
                                              place=self.source.place(key.start_mark.index))
                behind = entry_sibling(self.source, node, key, item)
                self.survey.add(Found(setting, entry_whole(self.source, node, key, item),
                                      behind[0] if behind else None, behind[1] if behind else None,
                                      writer(self.source, item, value)))

    def _passed(self, key: str, node: ScalarNode) -> None:
        """A key without a value is passed through from where compose runs."""
        place = self.source.place(node.start_mark.index)
        value = self.known.get(key)
        if isinstance(value, Traced):
            self.inside.values[key] = value
            self.survey.add(Found(self.survey.setting(key, value, None, "env", self.scope, place=place)))
        else:
            self.survey.warn(place, f"{key} comes from where compose runs: its value is not known")

    def _command(self) -> None:
        words, parts = list[Word](), list[tuple[int, Joint]]()
        for name in ("entrypoint", "command"):
            node = get(self.node, name)
            if isinstance(node, SequenceNode):
                more, items = listed(self.source, node, self._expand)
                parts.append((len(more), items))
            elif isinstance(node, ScalarNode) and not is_null(node):
                self.survey.here = self.source.place(node.start_mark.index)
                text = trace(self.source, node)
                more = Lexer(text, self.known, operators=False, doubled=True).words()
                parts.append((len(more), Spaced(more)))
            else:
                continue
            words += more
        if words:
            read_argv(words, Chained(parts), self.survey, self.inside, self.source, self.scope)
        self.survey.here = None
