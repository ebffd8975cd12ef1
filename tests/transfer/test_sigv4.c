/* SPDX-License-Identifier: Apache-2.0 */
#include "base/transfer/sigv4.h"

#include "tests/lib/check.h"

/* The examples of Amazon's reference of S3, "Signature Calculations for the Authorization Header":
 * all of 24 May 2013, 00:00:00, in us-east-1. */
static const struct dt_keys keys = {
    .id = "AKIAIOSFODNN7EXAMPLE",
    .secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
};
#define THAT_DAY 1369353600
#define HOST                                                                                       \
    {                                                                                              \
        "host", "examplebucket.s3.amazonaws.com"                                                   \
    }
#define DATE                                                                                       \
    {                                                                                              \
        "x-amz-date", "20130524T000000Z"                                                           \
    }
#define NOTHING "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define WELCOME "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"

static const struct published {
    const char *name, *names, *signature, *target;
    struct dt_sigv4_request request;
} published[] = {
    {
        .name = "GET of a range",
        .names = "host;range;x-amz-content-sha256;x-amz-date",
        .signature = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        .target = "/test.txt",
        .request =
            {.method = "GET",
             .path = "/test.txt",
             .headers = {HOST, DATE, {"x-amz-content-sha256", NOTHING}, {"range", "bytes=0-9"}},
             .payload = NOTHING},
    },
    {
        .name = "PUT of a key with a dollar",
        .names = "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
        .signature = "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        .target = "/test%24file.text",
        .request = {.method = "PUT",
                    .path = "/test$file.text",
                    .headers = {HOST,
                                DATE,
                                {"date", "Fri, 24 May 2013 00:00:00 GMT"},
                                {"x-amz-content-sha256", WELCOME},
                                {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
                    .payload = WELCOME},
    },
    {
        .name = "GET of a word without a value",
        .names = "host;x-amz-content-sha256;x-amz-date",
        .signature = "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
        .target = "/?lifecycle=",
        .request = {.method = "GET",
                    .path = "/",
                    .query = {{"lifecycle", ""}},
                    .headers = {HOST, DATE, {"x-amz-content-sha256", NOTHING}},
                    .payload = NOTHING},
    },
    {
        .name = "GET of a listing, its query out of order",
        .names = "host;x-amz-content-sha256;x-amz-date",
        .signature = "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        .target = "/?max-keys=2&prefix=J",
        .request = {.method = "GET",
                    .path = "/",
                    .query = {{"prefix", "J"}, {"max-keys", "2"}},
                    .headers = {HOST, DATE, {"x-amz-content-sha256", NOTHING}},
                    .payload = NOTHING},
    },
};

TEST(requests_are_signed_as_published)
{
    struct dt_err err = {0};
    const struct dt_curl_table *lib = dt_http_open(&err);
    CHECK_OK(lib ? 0 : -1, err);
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        const struct published *p = &published[i];
        struct dt_buf got = {0}, want = {0}, target = {0};
        CHECK_ROW("%s", p->name);
        CHECK_EQ(dt_sigv4_sign(lib, &p->request, &keys, "us-east-1", "s3", THAT_DAY, &got), 0);
        dt_buf_printf(&want,
                      "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/"
                      "aws4_request,SignedHeaders=%s,Signature=%s",
                      p->names, p->signature);
        CHECK_STR(dt_buf_cstr(&got), dt_buf_cstr(&want));
        dt_sigv4_target(&p->request, &target);
        CHECK_STR(dt_buf_cstr(&target), p->target);
        dt_buf_finish(&got);
        dt_buf_finish(&want);
        dt_buf_finish(&target);
    }
}

TEST(text_is_encoded_as_signers_want_it)
{
    static const struct {
        const char *text, *want;
        bool slashes;
    } rows[] = {
        {"azAZ09-._~", "azAZ09-._~", false},
        {"a b+c/d", "a%20b%2Bc%2Fd", false},
        {"a b+c/d", "a%20b%2Bc/d", true},
        {"\xc3\xa4=&*", "%C3%A4%3D%26%2A", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_buf got = {0};
        dt_url_encode(&got, rows[i].text, rows[i].slashes);
        CHECK_STR(dt_buf_cstr(&got), rows[i].want);
        dt_buf_finish(&got);
    }
}
