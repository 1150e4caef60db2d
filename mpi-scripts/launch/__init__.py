# SPDX-License-Identifier: Apache-2.0
"""The launcher: main.py is the program, which launch.sh starts and which is installed as lockstep-launch."""
