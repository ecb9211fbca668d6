"""radiance: experts of an MoE model tiered between VRAM and pinned RAM, in three generations of memory rules."""
