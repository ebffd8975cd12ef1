/* SPDX-License-Identifier: Apache-2.0 */
/* The real dtrun-ctl ($DT_CTL) looks for what is wrong with a real rendezvous ($DT_RENDEZVOUS). */
#include "base/fs.h"
#include "rendezvous/protocol/proof.h"
#include "tests/lib/daemon.h"
#include "tests/lib/folder.h"
#include "tests/lib/port.h"

#include <sys/stat.h>
#include <sys/wait.h>

#define PROGRAM getenv("DT_RENDEZVOUS")

BEFORE_ALL
{
    folder_make();
    if (!getenv("DT_CTL"))
        SKIP("DT_CTL does not name the program");
    unsetenv("DTRUN_RENDEZVOUS");
}

static char out[8192];

/* Its exit status; `out` has all that it said. */
static int doctor(uint16_t port, const char *args)
{
    char line[1024];
    struct dt_buf b = {0};
    struct dt_err err = {0};
    snprintf(line, sizeof line, "\"$DT_CTL\" --endpoint 127.0.0.1:%d doctor %s >'%s' 2>&1", port,
             args, at("out"));
    int status = system(line);
    CHECK_OK(dt_fs_read(at("out"), sizeof out - 1, &b, &err), err);
    snprintf(out, sizeof out, "%s", dt_buf_cstr(&b));
    dt_buf_finish(&b);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static const char *write_secret(char path[300], const char *name, const char *secret)
{
    FILE *f = fopen(strcpy(path, at(name)), "w");
    CHECK(f != NULL);
    CHECK(fputs(secret, f) >= 0);
    CHECK_EQ(fclose(f), 0);
    CHECK_EQ(chmod(path, 0600), 0);
    return path;
}

TEST(a_daemon_is_examined)
{
    struct daemon_process d;
    DAEMON_START(&d, PROGRAM, "--listen", "127.0.0.1:0", "--max-runs", "7");
    CHECK_EQ(doctor(d.port, ""), 0);
    CHECK(strstr(out, "rendezvous 127.0.0.1:") != NULL);
    CHECK(strstr(out, "ok   version    " DT_VERSION " there, " DT_VERSION " here\n") != NULL);
    CHECK(strstr(out, "note token      it asks for no token") != NULL);
    CHECK(strstr(out, "ok   clock      its clock is ") != NULL);
    CHECK(strstr(out, "note http       it answers no HTTP") != NULL);
    CHECK(strstr(out, "ok   limits     runs: 0 of 7\n") != NULL);
    CHECK(strstr(out, "ok   limits     connections: 1 of ") != NULL);
    CHECK_EQ(doctor(d.port, "--json"), 0);
    CHECK(strstr(out, "{\"verdict\":\"note\",\"remarks\":[{\"grade\":\"ok\"") == out);
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(a_token_is_tried)
{
    struct dt_err err;
    struct daemon_process d;
    char ours[300], other[300], option[400];
    if (!dt_proof_open(&err))
        SKIP("%s", err.text);
    write_secret(ours, "ours", "a secret of forty-two bytes, or nearly so.");
    write_secret(other, "other", "another one of forty-two bytes, or nearly.");
    DAEMON_START(&d, PROGRAM, "--listen", "127.0.0.1:0", "--token-file", ours);
    snprintf(option, sizeof option, "--token-file '%s'", ours);
    CHECK_EQ(doctor(d.port, option), 0);
    CHECK(strstr(out, "ok   token      it asks for a token, and took this one\n") != NULL);
    CHECK_EQ(doctor(d.port, ""), 1);
    CHECK(strstr(out, "FAIL rendezvous rendezvous 127.0.0.1:") == out);
    CHECK(strstr(out, "it asks for a token; give --token-file\n") != NULL);
    snprintf(option, sizeof option, "--token-file '%s' --json", other);
    CHECK_EQ(doctor(d.port, option), 1);
    CHECK(strstr(out, "{\"verdict\":\"fail\",") == out);
    CHECK_EQ(daemon_stop(&d), 0);
}

TEST(nobody_there_is_found_out)
{
    CHECK_EQ(doctor((uint16_t)port_take(), ""), 1);
    CHECK(strstr(out, "FAIL rendezvous rendezvous 127.0.0.1:") == out);
    CHECK(strstr(out, "is a rendezvous running there? --endpoint says where to look") != NULL);
}

TEST(http_is_found)
{
    struct daemon_process d;
    if (!DT_TEST_MICROHTTPD)
        SKIP("built without libmicrohttpd");
    DAEMON_START(&d, PROGRAM, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0");
    CHECK_EQ(doctor(d.port, ""), 0);
    CHECK(strstr(out, "ok   http       the page and the metrics are at 127.0.0.1:") != NULL);
    CHECK_EQ(daemon_stop(&d), 0);
}
