"""Reading a server's settings from the files people keep them in, and changing them there.

``measurements.config.edit`` changes them; it is not loaded for reading.
"""

from measurements.config.mapping import Mapped, map_settings
from measurements.config.read import read_config
from measurements.config.secrets import redact

__all__ = ["Mapped", "map_settings", "read_config", "redact"]
