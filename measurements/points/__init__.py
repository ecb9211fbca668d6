"""Measured speeds: reads points files and admits what is evidence."""

from measurements.points.point import Point, PointsReading, Refusal
from measurements.points.read import REFERENCE, read_points, reference_files

__all__ = ["REFERENCE", "Point", "PointsReading", "Refusal", "read_points", "reference_files"]
