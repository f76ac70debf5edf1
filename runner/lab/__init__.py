"""Nodes, cables, sites, topologies, images and the WAN, and where they run."""
