"""Measured speeds: reads points files and admits what is evidence."""

from measurements.points.point import Point, PointsReading, Refusal

__all__ = ["Point", "PointsReading", "Refusal"]
