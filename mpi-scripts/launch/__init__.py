# SPDX-License-Identifier: Apache-2.0
"""The parts of launch.py, which is installed as lockstep-launch."""
