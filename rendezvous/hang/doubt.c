/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/hang/doubt.h"

bool dt_hang_is_in_doubt(const struct dt_stances *all)
{
    bool waits = false;
    for (size_t i = 0; i < all->len; i++) {
        enum dt_doing d = all->at[i].stance.doing;
        if (d == DT_DOING_COMPILE || d == DT_DOING_COLLECT || d == DT_DOING_SAVE)
            return true;
        waits = waits || d == DT_DOING_COLLECTIVE || d == DT_DOING_STORE;
    }
    return !waits;
}
