/* SPDX-License-Identifier: Apache-2.0 */
/* What one call of the mock NCCL, or one group of calls, sends and receives: pieces for each peer,
 * one behind the other, all peers at once, and what is to be done when all is there. */
#ifndef DT_TESTS_GPU_EMULATOR_NCCL_TRANSFER_H
#define DT_TESTS_GPU_EMULATOR_NCCL_TRANSFER_H

#include "tests/gpu/emulator/nccl_wire.h"

#include <deque>
#include <functional>
#include <map>
#include <vector>

namespace dt_emulator
{

/* Goes ahead of each piece: ranks that do not make the same calls are told apart from those that
 * only make them late. */
struct heading {
    uint32_t call, type;
    uint64_t bytes;
};

struct piece {
    heading head;
    size_t head_done, done;
    unsigned char *at;
};

class transfer
{
  public:
    explicit transfer(int own_rank) : rank(own_rank)
    {
    }
    void send(int to, heading h, const void *at);
    void receive(int from, heading h, void *at);
    void then(std::function<void()> fn);
    /* Moves what can be moved; true when all is done. Ends the program on other headings than
     * expected. */
    bool step(wire &w);

  private:
    int rank;
    std::map<int, std::deque<piece>> out, in;
    std::map<int, heading> arrived; /* as much of it as has */
    std::vector<std::function<void()>> afterwards;
};

} // namespace dt_emulator

#endif
