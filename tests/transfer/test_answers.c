/* SPDX-License-Identifier: Apache-2.0 */
#include "base/transfer/answers.h"

#include "base/transfer/date.h"
#include "base/transfer/profile.h"
#include "base/transfer/xml.h"

#include "tests/lib/check.h"

/* -- XML -------------------------------------------------------------------------------------- */

static int note(void *arg, const char *path, const char *text, struct dt_err *err)
{
    (void)err;
    dt_buf_printf(arg, "%s=%s;", path, text);
    return 0;
}

TEST(elements_come_as_they_end_with_their_own_text)
{
    static const struct {
        const char *document, *want;
    } rows[] = {
        {"<a/>", "a=;"},
        {"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<a>x</a>\n", "a=x;"},
        {"<a xmlns=\"http://x/\"><b>1</b> <b>2</b></a>", "a/b=1;a/b=2;a= ;"},
        {"<a>x<b>y</b>z</a>", "a/b=y;a=xz;"},
        {"<n:a><n:b >&lt;&amp;&gt;&quot;&apos;</n:b></n:a>", "a/b=<&>\"';a=;"},
        {"<a>&#65;&#x42;&#xe4;&#x20ac;&#x1f600;</a>", "a=AB\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80;"},
        {"<a><b c='d' /></a>", "a/b=;a=;"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_buf got = {0};
        struct dt_err err = {0};
        CHECK_ROW("%s", rows[i].document);
        CHECK_OK(dt_xml_walk(dt_bytes_of(rows[i].document), note, &got, &err), err);
        CHECK_STR(dt_buf_cstr(&got), rows[i].want);
        dt_buf_finish(&got);
    }
}

TEST(what_no_store_writes_is_refused)
{
    static const char *const bad[] = {
        "",
        " ",
        "x",
        "<a>",
        "</a>",
        "<a></b>",
        "<a/><b/>",
        "<a></a>x",
        "x<a/>",
        "<",
        "<>",
        "< a/>",
        "<a",
        "<a>&x;</a>",
        "<a>&amp</a>",
        "<a>&;</a>",
        "<a>&#;</a>",
        "<a>&#0;</a>",
        "<a>&#xd800;</a>",
        "<a>&#x110000;</a>",
        "<a>&#12x;</a>",
        "<a>&#-1;</a>",
        "&amp;<a/>",
        "<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>",
        "<a><!-- c --></a>",
        "<a><![CDATA[x]]></a>",
        "<a><b><c><d><e><f><g><h><i/></h></g></f></e></d></c></b></a>",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct dt_buf got = {0};
        struct dt_err err = {0};
        CHECK_ROW("%s", bad[i]);
        CHECK_FAIL(dt_xml_walk(dt_bytes_of(bad[i]), note, &got, &err), err, "not the XML");
        dt_buf_finish(&got);
    }
}

TEST(texts_and_names_have_bounds)
{
    static char document[DT_XML_TEXT + 100];
    struct dt_buf got = {0};
    struct dt_err err = {0};
    size_t n = (size_t)sprintf(document, "<a>");
    memset(document + n, 'x', DT_XML_TEXT);
    strcpy(document + n + DT_XML_TEXT, "</a>");
    CHECK_OK(dt_xml_walk(dt_bytes_of(document), note, &got, &err), err);
    strcpy(document + n + DT_XML_TEXT, "x</a>");
    CHECK_FAIL(dt_xml_walk(dt_bytes_of(document), note, &got, &err), err, "too long");
    memset(document + 1, 'a', DT_XML_PATH);
    strcpy(document + 1 + DT_XML_PATH, "/>");
    CHECK_FAIL(dt_xml_walk(dt_bytes_of(document), note, &got, &err), err, "too deep");
    CHECK_FAIL(dt_xml_walk((struct dt_bytes){(const uint8_t *)"<a>\0</a>", 8}, note, &got, &err),
               err, "NUL");
    dt_buf_finish(&got);
}

/* -- answers ---------------------------------------------------------------------------------- */

#define OBJECT(key, size)                                                                          \
    "<Contents><Key>" key "</Key><LastModified>2026-11-23T02:48:00.000Z</LastModified>"            \
    "<ETag>&quot;9b2cf535f27731c974343645a3985328&quot;</ETag><Size>" size "</Size></Contents>"
#define GROUP(key) "<CommonPrefixes><Prefix>" key "</Prefix></CommonPrefixes>"

TEST(a_page_is_in_the_order_of_keys)
{
    static const char text[] =
        "<?xml version=\"1.0\"?><ListBucketResult "
        "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
        "<Name>b</Name><Prefix/><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
        "<NextContinuationToken>1ueG&amp;</NextContinuationToken>" OBJECT("b%2Fc+d%2B%0a", "7")
            OBJECT("a", "0") GROUP("aa/") "</ListBucketResult>";
    struct dt_page page;
    struct dt_err err = {0};
    CHECK_OK(dt_answer_page(dt_bytes_of(text), &page, &err), err);
    CHECK_EQ(page.len, 3);
    CHECK_STR(page.at[0].key, "a");
    CHECK_STR(page.at[1].key, "aa/");
    CHECK(page.at[1].is_group);
    CHECK_STR(page.at[2].key, "b/c d+\n");
    CHECK_EQ(page.at[2].size, 7);
    CHECK_EQ(page.at[2].changed, 1795402080);
    CHECK_STR(page.at[2].tag, "\"9b2cf535f27731c974343645a3985328\"");
    CHECK(page.is_cut);
    CHECK_STR(page.next, "1ueG&");
    dt_page_finish(&page);
}

TEST(a_hostile_page_is_refused)
{
    static const struct {
        const char *body, *why;
    } rows[] = {
        {OBJECT("", "1"), "without a key"},
        {"<Contents><Size>1</Size></Contents>", "without a key"},
        {OBJECT("a", "-1"), "size"},
        {OBJECT("a", "99999999999999999999"), "size"},
        {OBJECT("a", "1") OBJECT("a", "1"), "twice"},
        {"<EncodingType>url</EncodingType>" OBJECT("a%2", "1"), "key"},
        {"<EncodingType>url</EncodingType>" OBJECT("a%00b", "1"), "key"},
        {GROUP("a"), "prefix"},
        {"<IsTruncated>true</IsTruncated>", "token"},
        {"<Contents><Key>a</Key><LastModified>now</LastModified></Contents>", "date"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[1024];
        struct dt_page page;
        struct dt_err err = {0};
        snprintf(text, sizeof text, "<ListBucketResult>%s</ListBucketResult>", rows[i].body);
        CHECK_ROW("%s", rows[i].body);
        CHECK_FAIL(dt_answer_page(dt_bytes_of(text), &page, &err), err, rows[i].why);
        dt_page_finish(&page);
    }
    struct dt_page page;
    struct dt_err err = {0};
    CHECK_FAIL(dt_answer_page(dt_bytes_of("<html>login</html>"), &page, &err), err,
               "another answer");
    dt_page_finish(&page);
}

TEST(a_page_has_no_more_rows_than_were_asked_for)
{
    struct dt_buf text = {0};
    struct dt_page page;
    struct dt_err err = {0};
    dt_buf_put_str(&text, "<ListBucketResult>");
    for (int i = 0; i <= DT_ANSWER_ROWS; i++)
        dt_buf_printf(&text, "<Contents><Key>%05d</Key></Contents>", i);
    dt_buf_put_str(&text, "</ListBucketResult>");
    CHECK_FAIL(dt_answer_page((struct dt_bytes){text.at, text.len}, &page, &err), err, "more than");
    dt_page_finish(&page);
    dt_buf_finish(&text);
}

TEST(an_error_is_told_from_anything_else)
{
    struct dt_answer_error e;
    CHECK(dt_answer_error(
        dt_bytes_of("<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Slow "
                    "\n down</Message><Region>eu-north-1</Region></Error>"),
        &e));
    CHECK_STR(e.code, "SlowDown");
    CHECK_STR(e.message, "Slow \\x0a down");
    CHECK_STR(e.region, "eu-north-1");
    CHECK(dt_answer_error(
        dt_bytes_of(
            "<ErrorResponse><Error><Code>ExpiredTokenException</Code></Error></ErrorResponse>"),
        &e));
    CHECK_STR(e.code, "ExpiredTokenException");
    CHECK(!dt_answer_error(dt_bytes_of("<html><Code>x</Code></html>"), &e));
    CHECK(!dt_answer_error(dt_bytes_of("<Error><Code>x</Code>"), &e));
    CHECK_STR(e.code, "");
    CHECK(!dt_answer_error(dt_bytes_of(""), &e));
}

TEST(the_youngest_upload_of_exactly_that_key_is_found)
{
#define UPLOAD(key, id, hour)                                                                      \
    "<Upload><Key>" key "</Key><UploadId>" id "</UploadId><Initiated>2026-11-23T" hour             \
    ":00:00.000Z</Initiated></Upload>"
    static const char text[] = "<ListMultipartUploadsResult>" UPLOAD("a/b", "old", "01")
        UPLOAD("a/b", "young", "03") UPLOAD("a/bc", "other", "04")
            UPLOAD("a/b", "middle", "02") "</ListMultipartUploadsResult>";
    char upload[DT_TOKEN_TEXT];
    struct dt_err err = {0};
    CHECK_OK(dt_answer_upload_of(dt_bytes_of(text), "a/b", upload, &err), err);
    CHECK_STR(upload, "young");
    CHECK_OK(dt_answer_upload_of(dt_bytes_of(text), "a", upload, &err), err);
    CHECK_STR(upload, "");
}

TEST(parts_stand_at_their_numbers)
{
    static const char text[] =
        "<ListPartsResult><IsTruncated>true</IsTruncated><NextPartNumberMarker>3</"
        "NextPartNumberMarker>"
        "<Part><PartNumber>3</PartNumber><ETag>\"c\"</ETag><Size>5</Size></Part>"
        "<Part><PartNumber>1</PartNumber><ETag>\"a\"</ETag><Size>6</Size></Part>"
        "<Part><PartNumber>9999</PartNumber><ETag>\"z\"</ETag><Size>6</Size></Part>"
        "</ListPartsResult>";
    struct dt_part parts[3] = {0};
    struct dt_err err = {0};
    int next;
    CHECK_OK(dt_answer_parts(dt_bytes_of(text), parts, 3, &next, &err), err);
    CHECK_EQ(next, 3);
    CHECK_STR(parts[0].tag, "\"a\"");
    CHECK_EQ(parts[1].size, 0);
    CHECK_EQ(parts[2].size, 5);
    CHECK_FAIL(dt_answer_parts(dt_bytes_of("<ListPartsResult><Part><PartNumber>10001</PartNumber>"
                                           "</Part></ListPartsResult>"),
                               parts, 3, &next, &err),
               err, "part");
}

TEST(credentials_come_out_of_an_answer_whole_or_not_at_all)
{
#define IN_ANSWER(text)                                                                            \
    "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>" text       \
    "</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
    struct dt_keys keys;
    struct dt_err err = {0};
    CHECK_OK(
        dt_answer_keys(dt_bytes_of(IN_ANSWER(
                           "<AccessKeyId>ASIA</AccessKeyId><SecretAccessKey>hush</SecretAccessKey>"
                           "<SessionToken>token</SessionToken>"
                           "<Expiration>2026-11-23T02:48:00Z</Expiration>")),
                       &keys, &err),
        err);
    CHECK_STR(keys.secret, "hush");
    CHECK_EQ(keys.expires, 1795402080);
    CHECK_FAIL(
        dt_answer_keys(dt_bytes_of(IN_ANSWER("<AccessKeyId>ASIA</AccessKeyId>")), &keys, &err), err,
        "no credentials");
}

/* -- what else comes as text ------------------------------------------------------------------ */

TEST(dates_are_read_whatever_the_locale)
{
    int64_t s = 0;
    char stamp[DT_DATE_STAMP];
    CHECK(dt_date_of_http("Sun, 06 Nov 1994 08:49:37 GMT", &s));
    CHECK_EQ(s, 784111777);
    CHECK(dt_date_of_iso("2026-11-23T02:48:00.123Z", &s));
    CHECK_EQ(s, 1795402080);
    CHECK(dt_date_of_iso("2026-11-23T02:48:00Z", &s));
    CHECK(!dt_date_of_http("Sun, 06 Foo 1994 08:49:37 GMT", &s));
    CHECK(!dt_date_of_http("Sunday, 06-Nov-94 08:49:37 GMT", &s));
    CHECK(!dt_date_of_http("Sun, 06 Nov 1994 08:49:37 CET", &s));
    CHECK(!dt_date_of_http("", &s));
    CHECK(!dt_date_of_iso("2026-11-23T02:48:00", &s));
    CHECK(!dt_date_of_iso("2026-13-23T02:48:00Z", &s));
    dt_date_stamp(1369353600, stamp);
    CHECK_STR(stamp, "20130524T000000Z");
}

static const char aws_config[] =
    "# mine\n[default]\nregion = eu-west-1\ns3 =\n  addressing_style = path\n  region = no\n\n"
    "[profile  train]\nregion=us-west-2\nendpoint_url = http://127.0.0.1:9000\n"
    "role_arn = arn:aws:iam::1:role/r\nweb_identity_token_file = /run/token\n[services x]\nregion "
    "= no\n"
    "[profile tool]\ncredential_process = /bin/keys\n";
static const char aws_credentials[] =
    "[train]\naws_access_key_id = AKIA\n"
    "aws_secret_access_key = hu=sh\r\n[other]\naws_access_key_id=no\n";

TEST(a_profile_is_put_together_from_two_files)
{
    struct dt_profile p = {0};
    struct dt_err err = {0};
    CHECK_OK(
        dt_profile_read(&p, dt_bytes_of(aws_credentials), DT_PROFILE_CREDENTIALS, "train", &err),
        err);
    CHECK_OK(dt_profile_read(&p, dt_bytes_of(aws_config), DT_PROFILE_CONFIG, "train", &err), err);
    CHECK(p.found);
    CHECK_STR(p.keys.id, "AKIA");
    CHECK_STR(p.keys.secret, "hu=sh");
    CHECK_STR(p.region, "us-west-2");
    CHECK_STR(p.endpoint, "http://127.0.0.1:9000");
    CHECK_STR(p.role, "arn:aws:iam::1:role/r");
    CHECK_STR(p.role_token_file, "/run/token");
    CHECK(!p.has_process);
}

TEST(a_profile_has_what_its_own_section_says)
{
    struct dt_profile p = {0}, tool = {0}, none = {0};
    CHECK_EQ(dt_profile_read(&p, dt_bytes_of(aws_config), DT_PROFILE_CONFIG, "default", NULL), 0);
    CHECK_STR(p.region, "eu-west-1");
    CHECK_EQ(dt_profile_read(&tool, dt_bytes_of(aws_config), DT_PROFILE_CONFIG, "tool", NULL), 0);
    CHECK(tool.has_process);
    CHECK_EQ(dt_profile_read(&none, dt_bytes_of(aws_config), DT_PROFILE_CONFIG, "x", NULL), 0);
    CHECK(!none.found);
}

TEST(a_file_of_profiles_that_is_none_is_refused_without_showing_it)
{
    struct dt_profile p = {0};
    struct dt_err err = {0};
    CHECK_FAIL(dt_profile_read(&p, dt_bytes_of("[default]\nhush hush\n"), DT_PROFILE_CREDENTIALS,
                               "default", &err),
               err, "line 2");
    CHECK(!strstr(err.text, "hush"));
    CHECK_FAIL(
        dt_profile_read(&p, dt_bytes_of("[default\n"), DT_PROFILE_CREDENTIALS, "default", &err),
        err, "line 1");
    char text[600] = "[default]\naws_secret_access_key = ";
    memset(text + strlen(text), 'h', 300);
    CHECK_FAIL(dt_profile_read(&p, dt_bytes_of(text), DT_PROFILE_CREDENTIALS, "default", &err), err,
               "longer than 256");
    CHECK(!strstr(err.text, "hhh"));
}
