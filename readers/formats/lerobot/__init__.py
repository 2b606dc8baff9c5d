"""LeRobot datasets of version 3.0: tables of states and actions, and videos that hold many episodes each."""
