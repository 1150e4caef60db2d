#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rank 1 comes to an all-reduce six seconds late. Meanwhile another rank says in a warning what all ranks do."""
import datetime
import time

import torch
import torch.distributed as dist

dist.init_process_group("lockstep", timeout=datetime.timedelta(seconds=8))
if dist.get_rank() == 1:
    time.sleep(6)
dist.all_reduce(torch.ones(4))
dist.destroy_process_group()
