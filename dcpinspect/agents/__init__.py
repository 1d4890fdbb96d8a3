"""What captures say, for agents: tools of the Model Context Protocol over the Python API."""
