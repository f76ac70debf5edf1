"""What is read in a lab and is no measurement of a VPN: hardware, kernel, noise, load, the bare path, the wire."""
