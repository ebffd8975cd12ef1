# SPDX-License-Identifier: Apache-2.0
"""dtrun, a launcher in torchrun's place, for Python programs.

dtrun.run           stands in for torch.distributed.run; "python -m dtrun" is dtrun
dtrun.install_hook  makes "python -m torch.distributed.run", torchrun, and the programs that call them run dtrun
dtrun.progress      a worker tells dtrun how far it is"""
