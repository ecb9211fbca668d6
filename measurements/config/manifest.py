"""YAML files: told apart as compose or Kubernetes by what they hold."""

from __future__ import annotations

from measurements.config.compose import read_compose
from measurements.config.found import Survey
from measurements.config.kubernetes import read_kubernetes
from measurements.config.nodes import documents, get
from measurements.config.trace import Source
from measurements.records import ReadError


def read_manifest(source: Source, survey: Survey) -> None:
    """Add the settings of a YAML file. Raises ReadError when it is neither compose nor Kubernetes."""
    nodes = documents(source)
    if any(get(node, "kind") is not None for node in nodes):
        read_kubernetes(source, nodes, survey)
    elif any(get(node, "services") is not None for node in nodes):
        for node in nodes:
            read_compose(source, node, survey)
    else:
        raise ReadError("YAML, but neither compose (services:) nor Kubernetes (kind:)", file=source.file)
