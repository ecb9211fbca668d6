"""Reading a server's settings from the files people keep them in, and changing them there."""

from measurements.config.edit import Edit, edit, unified_diff
from measurements.config.mapping import Mapped, map_settings
from measurements.config.read import read_config
from measurements.config.secrets import redact

__all__ = ["Edit", "Mapped", "edit", "map_settings", "read_config", "redact", "unified_diff"]
