"""Answers as tables for people; the same documents that ``--json`` prints."""
