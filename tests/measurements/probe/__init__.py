"""Tests of the probe: against llama.cpp itself, and a proxy in front of it that spoils what it says."""
