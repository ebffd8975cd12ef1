/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks of the mock NCCL share: a segment of memory by a name, where each rank says that it
 * is here and what part of a split it wants, and a pipe from each rank to each. Pipes never wait:
 * they take and give what they can. Nobody is told when a peer dies. */
#ifndef DT_TESTS_GPU_EMULATOR_NCCL_WIRE_H
#define DT_TESTS_GPU_EMULATOR_NCCL_WIRE_H

#include <atomic>
#include <stddef.h>
#include <stdint.h>
#include <string>

namespace dt_emulator
{

class wire
{
  public:
    /* NULL where there is no shared memory. */
    static wire *open(const std::string &name, int ranks, int rank);
    ~wire();
    wire(const wire &) = delete;
    wire &operator=(const wire &) = delete;

    bool all_here();

    /* How many bytes it took or gave. */
    size_t send(int to, const void *bytes, size_t n);
    size_t receive(int from, void *bytes, size_t n);

    /* The NUMBERth split of this group: each rank says once what it wants. */
    void say_split(unsigned number, int colour, int key);
    bool split_of(unsigned number, int rank, int *colour, int *key);

    const std::string name;
    const int ranks, rank;

  private:
    struct pipe;
    struct segment;
    wire(const std::string &its_name, int all, int own, segment *s, size_t size);
    pipe *from_to(int from, int to);

    segment *seg;
    size_t bytes;
};

} // namespace dt_emulator

#endif
