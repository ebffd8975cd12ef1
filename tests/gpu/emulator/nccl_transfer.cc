/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/gpu/emulator/nccl_transfer.h"
#include "tests/gpu/emulator/emulator.h"

namespace dt_emulator
{

void transfer::send(int to, heading h, const void *at)
{
    out[to].push_back({h, 0, 0, static_cast<unsigned char *>(const_cast<void *>(at))});
}

void transfer::receive(int from, heading h, void *at)
{
    in[from].push_back({h, 0, 0, static_cast<unsigned char *>(at)});
}

void transfer::then(std::function<void()> fn)
{
    afterwards.push_back(std::move(fn));
}

static bool send_some(wire &w, int to, piece &p)
{
    const unsigned char *head = reinterpret_cast<unsigned char *>(&p.head);
    if (p.head_done < sizeof p.head)
        p.head_done += w.send(to, head + p.head_done, sizeof p.head - p.head_done);
    if (p.head_done == sizeof p.head)
        p.done += w.send(to, p.at + p.done, p.head.bytes - p.done);
    return p.head_done == sizeof p.head && p.done == p.head.bytes;
}

static bool receive_some(wire &w, int from, int rank, piece &p, heading &got)
{
    unsigned char *head = reinterpret_cast<unsigned char *>(&got);
    if (p.head_done < sizeof got) {
        p.head_done += w.receive(from, head + p.head_done, sizeof got - p.head_done);
        if (p.head_done < sizeof got)
            return false;
        if (memcmp(&got, &p.head, sizeof got) != 0)
            give_up("NCCL: rank %d is at call %u of type %u with %zu bytes, rank %d at call %u of "
                    "type %u with %zu bytes",
                    rank, p.head.call, p.head.type, size_t(p.head.bytes), from, got.call, got.type,
                    size_t(got.bytes));
    }
    p.done += w.receive(from, p.at + p.done, p.head.bytes - p.done);
    return p.done == p.head.bytes;
}

bool transfer::step(wire &w)
{
    bool done = true;
    for (auto &to : out) {
        while (!to.second.empty() && send_some(w, to.first, to.second.front()))
            to.second.pop_front();
        done = done && to.second.empty();
    }
    for (auto &from : in) {
        while (!from.second.empty() &&
               receive_some(w, from.first, rank, from.second.front(), arrived[from.first]))
            from.second.pop_front();
        done = done && from.second.empty();
    }
    for (size_t i = 0; done && i < afterwards.size(); i++)
        afterwards[i]();
    return done;
}

} // namespace dt_emulator
