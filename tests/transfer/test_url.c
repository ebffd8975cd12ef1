/* SPDX-License-Identifier: Apache-2.0 */
#include "base/transfer/url.h"

#include "tests/lib/check.h"

TEST(a_place_is_a_bucket_or_a_folder)
{
    static const struct {
        const char *text, *bucket, *path, *again, *with_key;
        enum dt_url_scheme scheme;
    } rows[] = {
        {"s3://ckpt", "ckpt", "", "s3://ckpt", "s3://ckpt/k", DT_URL_S3},
        {"s3://ckpt/", "ckpt", "", "s3://ckpt", "s3://ckpt/k", DT_URL_S3},
        {"s3://my.bucket-1/runs/a/", "my.bucket-1", "runs/a", "s3://my.bucket-1/runs/a",
         "s3://my.bucket-1/runs/a/k", DT_URL_S3},
        {"file:///srv/ckpt", "", "/srv/ckpt", "file:///srv/ckpt", "file:///srv/ckpt/k",
         DT_URL_FILE},
        {"file:///srv/a b//", "", "/srv/a b", "file:///srv/a b", "file:///srv/a b/k", DT_URL_FILE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_url url;
        struct dt_err err = {0};
        char text[DT_URL_TEXT];
        CHECK_ROW("%s", rows[i].text);
        CHECK_OK(dt_url_parse(rows[i].text, &url, &err), err);
        CHECK_EQ(url.scheme, rows[i].scheme);
        CHECK_STR(url.bucket, rows[i].bucket);
        CHECK_STR(url.path, rows[i].path);
        CHECK_STR(dt_url_text(&url, NULL, text, sizeof text), rows[i].again);
        CHECK_STR(dt_url_text(&url, "k", text, sizeof text), rows[i].with_key);
    }
}

TEST(what_is_no_place_is_refused_with_a_reason)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"", "no URL"},
        {"/srv/ckpt", "no URL"},
        {"gs://bucket/a", "nothing here speaks that scheme"},
        {"S3://bucket", "no URL"},
        {"s3://", "bucket"},
        {"s3://ab", "bucket"},
        {"s3:///a", "bucket"},
        {"s3://-bucket", "bucket"},
        {"s3://buck et/a", "bucket"},
        {"s3://user:secret@host/a", "bucket"},
        {"s3://bucket//a", "empty part"},
        {"s3://bucket/a/../b", "\"..\""},
        {"s3://bucket/./b", "\".\""},
        {"s3://bucket/a?versionId=1", "query"},
        {"s3://bucket/a\n", "control"},
        {"file://srv/ckpt", "absolute"},
        {"file:///", "root"},
        {"file:////srv", "empty part"},
        {"file:///srv/../etc", "\"..\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_url url;
        struct dt_err err = {0};
        CHECK_ROW("\"%s\"", rows[i].text);
        CHECK_FAIL(dt_url_parse(rows[i].text, &url, &err), err, rows[i].why);
        CHECK_EQ(err.code, DT_E_USAGE);
    }
}

TEST(a_prefix_has_a_longest_length)
{
    char text[DT_KEY_MAX + 20];
    struct dt_url url;
    struct dt_err err = {0};
    memset(text, 'a', sizeof text);
    memcpy(text, "s3://bucket/", 12);
    text[12 + DT_KEY_MAX] = '\0';
    CHECK_OK(dt_url_parse(text, &url, &err), err);
    text[12 + DT_KEY_MAX] = 'a';
    text[12 + DT_KEY_MAX + 1] = '\0';
    CHECK_FAIL(dt_url_parse(text, &url, &err), err, "too long");
}

TEST(a_url_is_told_from_a_path)
{
    CHECK(dt_url_is_one("s3://bucket"));
    CHECK(dt_url_is_one("gs://bucket"));
    CHECK(dt_url_is_one("file:///srv"));
    CHECK(!dt_url_is_one("/srv/s3://bucket"));
    CHECK(!dt_url_is_one("://bucket"));
    CHECK(!dt_url_is_one("s3:/bucket"));
    CHECK(!dt_url_is_one("out"));
}

TEST(a_key_that_leads_out_of_a_folder_is_no_file_key)
{
    static const char *const good[] = {"a", "step-8/rank-0", "...", "a..b/.c", "a b", "\xc3\xa4"};
    static const char *const bad[] = {"",     ".",   "..",     "/a",   "a/",   "a//b",
                                      "../a", "a/.", "a/../b", "a\nb", "a\x7f"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        CHECK_ROW("%s", good[i]);
        CHECK(dt_url_is_file_key(good[i]));
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_ROW("%s", bad[i]);
        CHECK(!dt_url_is_file_key(bad[i]));
    }
}

TEST(an_endpoint_is_host_and_port)
{
    static const struct {
        const char *text, *host, *path;
        unsigned port;
        bool tls;
    } rows[] = {
        {"https://s3.example.com", "s3.example.com", "", 443, true},
        {"http://127.0.0.1:9000/", "127.0.0.1", "", 9000, false},
        {"http://[::1]:9000/base/x/", "[::1]", "/base/x", 9000, false},
        {"http://[::1]", "[::1]", "", 80, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_http_endpoint e;
        struct dt_err err = {0};
        CHECK_ROW("%s", rows[i].text);
        CHECK_OK(dt_http_endpoint_parse(rows[i].text, &e, &err), err);
        CHECK_STR(e.host, rows[i].host);
        CHECK_STR(e.path, rows[i].path);
        CHECK_EQ(e.port, rows[i].port);
        CHECK_EQ(e.tls, rows[i].tls);
    }
}

TEST(what_is_no_endpoint_is_refused_without_its_secrets)
{
    static const char *const bad[] = {
        "",
        "host",
        "ftp://host",
        "https://",
        "https://:80",
        "http://a:0",
        "http://a:99999",
        "http://a:x",
        "http://a b",
        "http://a/?q",
        "http://a#f",
        "http://a/../b",
        "http://[::1",
        "http://[::1]x",
        "http://[x]",
        "http://u:secret@host",
        "http://a/%2e",
        "http://a\r\nX: y",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct dt_http_endpoint e;
        struct dt_err err = {0};
        CHECK_ROW("\"%s\"", bad[i]);
        CHECK_FAIL(dt_http_endpoint_parse(bad[i], &e, &err), err, "no endpoint");
        CHECK(!strstr(err.text, "secret"));
    }
}

TEST(amazon_has_another_domain_in_china)
{
    CHECK_STR(dt_amazon_domain("us-east-1"), "amazonaws.com");
    CHECK_STR(dt_amazon_domain("cn-north-1"), "amazonaws.com.cn");
    CHECK_STR(dt_amazon_domain("ca-central-1"), "amazonaws.com");
}
