"""halogen-flash-server: one model in the unified memory of an AMD Strix Halo machine."""
