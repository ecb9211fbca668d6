"""What an engine does with memory and time: pure arithmetic, no files, no solver."""
