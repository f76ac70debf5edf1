"""The software of the nodes: the lab image, and layers over it for the plugins that name one."""
