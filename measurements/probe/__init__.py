"""Measuring a live OpenAI-compatible server, under the probe rules, into points that the laws' reader admits.

``client`` sends one request and times it, ``counting`` learns how many tokens a text has, ``ladder`` plans what is
asked within bounds, ``metrics`` reads the server's own counters, ``run`` measures and stops at the first sign of harm,
``write`` appends rows to a points file. Standard library only; nothing is sent but to the one server that was named.
"""
