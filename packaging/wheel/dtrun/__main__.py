# SPDX-License-Identifier: Apache-2.0
import sys

from dtrun.run import become

become("dtrun", sys.argv[1:])
