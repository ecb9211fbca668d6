"""Answers as tables for people; everything shown is in the JSON document too."""
from __future__ import annotations
from typing import Any
def show_check(d: dict[str, Any]) -> None:
    print(d["verdict"], d["outcome"])
def show_solve(d: dict[str, Any]) -> None:
    print(d["status"])
