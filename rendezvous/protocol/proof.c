/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/protocol/proof.h"

#include "base/auto.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* -- the token -------------------------------------------------------------------------------- */

/* Fills INTO as far as the file goes; a pipe gives what it has in pieces. */
static ssize_t read_all(int fd, uint8_t *into, size_t size)
{
    size_t len = 0;
    while (len < size) {
        ssize_t n = read(fd, into + len, size - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        len += (size_t)n;
    }
    return (ssize_t)len;
}

static int check_mode(const char *file, int fd, struct dt_err *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "token file %s", file);
    if (st.st_mode & S_IRWXO)
        return dt_err_set(err, DT_E_USAGE,
                          "token file %s: every user of this host may use it (its mode is %04o); "
                          "chmod o-rwx it, and make a new token if others may have seen it",
                          file, (unsigned)(st.st_mode & 07777));
    return 0;
}

static int take(const char *file, const uint8_t *text, size_t len, struct dt_token *token,
                struct dt_err *err)
{
    if (len > 0 && text[len - 1] == '\n')
        len--;
    if (len == 0)
        return dt_err_set(err, DT_E_USAGE,
                          "token file %s: it is empty; put a secret into it, as from "
                          "\"openssl rand -hex 32\"",
                          file);
    if (len > DT_TOKEN_MAX)
        return dt_err_set(err, DT_E_USAGE, "token file %s: longer than %d bytes; a token is short",
                          file, DT_TOKEN_MAX);
    memcpy(token->secret, text, len);
    token->len = len;
    return 0;
}

int dt_proof_read_token(const char *file, struct dt_token *token, struct dt_err *err)
{
    uint8_t text[DT_TOKEN_MAX + 2]; /* a newline, and one more that tells of too many */
    token->len = 0;
    DT_AUTO_FD fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return dt_err_errno(err, DT_E_USAGE, errno, "token file %s", file);
    if (check_mode(file, fd, err) < 0)
        return -1;
    ssize_t len = read_all(fd, text, sizeof text);
    int rc = len < 0 ? dt_err_errno(err, DT_E_USAGE, errno, "token file %s", file)
                     : take(file, text, (size_t)len, token, err);
    explicit_bzero(text, sizeof text);
    return rc;
}

void dt_token_finish(struct dt_token *token)
{
    explicit_bzero(token, sizeof *token);
}

/* -- proofs ----------------------------------------------------------------------------------- */

const struct dt_proof_table *dt_proof_open(struct dt_err *err)
{
    const struct dt_proof_table *lib =
        dt_plugin_open("rendezvous/protocol/proof", DT_PROOF_ABI, sizeof *lib, err);
    if (!lib) {
        dt_err_wrap(err, "a token takes libsodium");
        return NULL;
    }
    if (lib->start() < 0) {
        dt_err_set(err, DT_E_RUNTIME, "libsodium cannot be used on this host: it does not start");
        return NULL;
    }
    return lib;
}

int dt_proof_make_nonce(uint8_t nonce[DT_NONCE_SIZE], struct dt_err *err)
{
    ssize_t n;
    do
        n = getrandom(nonce, DT_NONCE_SIZE, 0);
    while (n < 0 && errno == EINTR);
    if (n != DT_NONCE_SIZE) /* that few come whole or not at all */
        return dt_err_errno(err, DT_E_RUNTIME, errno, "the kernel gives no random bytes");
    return 0;
}

void dt_proof_make(const struct dt_proof_table *lib, const void *secret, size_t len,
                   enum dt_proof_side side, const struct dt_proof_nonces *nonces,
                   uint8_t proof[DT_PROOF_SIZE])
{
    static const char names[][13] = {
        [DT_PROOF_CLIENT] = "dtrun client", /* with the zero byte behind it */
        [DT_PROOF_SERVER] = "dtrun server",
    };
    uint8_t text[sizeof names[0] + 2 * DT_NONCE_SIZE], *at = text;
    at = mempcpy(at, names[side], sizeof names[side]);
    at = mempcpy(at, nonces->client, DT_NONCE_SIZE);
    memcpy(at, nonces->server, DT_NONCE_SIZE);
    lib->hmac_sha256(secret, len, text, sizeof text, proof);
}

bool dt_proof_holds(const struct dt_proof_table *lib, const void *secret, size_t len,
                    enum dt_proof_side side, const struct dt_proof_nonces *nonces,
                    const uint8_t proof[DT_PROOF_SIZE])
{
    uint8_t good[DT_PROOF_SIZE];
    volatile uint8_t differ = 0; /* so that no compiler stops early */
    dt_proof_make(lib, secret, len, side, nonces, good);
    for (size_t i = 0; i < sizeof good; i++)
        differ |= good[i] ^ proof[i];
    return differ == 0;
}
