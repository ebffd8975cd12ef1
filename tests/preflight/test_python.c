/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probes/python.h"
#include "tests/preflight/judged.h"

BEFORE_ALL
{
    folder_make();
}

static const char version_py[] =
    "from typing import Optional\n\n"
    "__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip']\n"
    "__version__ = '2.6.0+cu124'\n"
    "debug = False\n"
    "cuda: Optional[str] = '12.4'\n"
    "hip: Optional[str] = None\n";

TEST(values_of_version_py)
{
    char out[32];
    dt_python_find(version_py, "__version__", out, sizeof out);
    CHECK_STR(out, "2.6.0+cu124");
    dt_python_find(version_py, "cuda", out, sizeof out);
    CHECK_STR(out, "12.4");
    dt_python_find(version_py, "hip", out, sizeof out);
    CHECK_STR(out, "");
    dt_python_find("cuda = None\n", "cuda", out, sizeof out);
    CHECK_STR(out, "");
    dt_python_find("cuda = '1234567890123456789012345678901234567890", "cuda", out, sizeof out);
    CHECK_EQ(strlen(out), sizeof out - 1);
}

TEST(what_is_said_of_it)
{
#define P .path = "/v/bin/python", .version = "3.11.2"
    /* clang-format off */
    static const struct { struct dt_python p; const char *words; } rows[] = {
        {{P, .torch = "2.6.0", .cuda = "12.4", .nccl = "2.21.5", .driver = "550.54"},
         "ok: Python 3.11.2, PyTorch 2.6.0 for CUDA 12.4, NCCL 2.21.5"},
        {{P, .torch = "2.6.0", .cuda = "12.4"}, "ok: Python 3.11.2, PyTorch 2.6.0 for CUDA 12.4"},
        {{P, .torch = "2.6.0", .cuda = "12.4", .driver = "470.1"},
         "fail: PyTorch 2.6.0 is for CUDA 12.4, which needs driver 525 or later; this host has 470.1"},
        {{P, .torch = "2.6.0", .driver = "550.54"}, "warn: this host has GPUs, but PyTorch 2.6.0 is built without"},
        {{P, .torch = "2.6.0"}, "ok: Python 3.11.2, PyTorch 2.6.0"},
        {{P}, "note: Python 3.11.2 (/v/bin/python) has no PyTorch"},
        {{.path = "/v/bin/python", .why = "Permission denied"}, "fail: /v/bin/python does not run: Permission"},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_sheet *s = fresh_sheet();
        CHECK_ROW("row %zu", i);
        dt_python_judge(&rows[i].p, s);
        check_said(s, rows[i].words);
        CHECK_EQ(s->remark_count, 1);
    }
}

static struct dt_sheet *look_with(const char *script)
{
    struct dt_sheet *s = fresh_sheet();
    put("v", "/python", script);
    CHECK(chmod(at("v/python"), 0755) == 0);
    dt_python_probe(&(struct dt_checkup){.root = at("v"), .python = at("v/python")}, s);
    return s;
}

/* An interpreter that answers as a real one does. */
TEST(versions_are_found_beside_the_package)
{
    char script[512];
    put("v", "/lib/torch/version.py", version_py);
    put("v", "/lib/nvidia_nccl_cu12-2.21.5.dist-info/METADATA", "");
    put("v", "/proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5\nGCC version: 12\n");
    snprintf(script, sizeof script, "#!/bin/sh\necho 3.11.2\necho %s/v/lib/torch/__init__.py\n",
             dir);
    const struct dt_sheet *s = look_with(script);
    check_said(s, "ok: Python 3.11.2, PyTorch 2.6.0+cu124 for CUDA 12.4, NCCL 2.21.5");
    CHECK_STR(dt_sheet_trait(s, "NCCL"), "2.21.5");
    check_said(look_with("#!/bin/sh\necho 3.11.2\necho\n"), "has no PyTorch");
    check_said(look_with("#!/bin/sh\necho 3.11.2\necho /gone/torch/__init__.py\n"),
               "PyTorch unknown");
    check_said(look_with("#!/bin/sh\nexit 3\n"), "does not run: it ends with status 3");
    check_said(look_with("#!/bin/sh\nkill -9 $$\n"), "does not run: it dies of signal 9");
    check_said(look_with("#!/nonexistent\n"), "does not run: No such file");
}
