/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/gpu/emulator/stream.h"
#include "tests/gpu/emulator/memory.h"

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

using namespace dt_emulator;

typedef std::chrono::steady_clock clock_type;

struct CUstream_st {
    std::deque<work> queue;
    uint64_t put = 0, done = 0;
    bool closed = false;
    int device = 0;
    /* What is asked for is recorded, and not done; spoilt: it cannot be any more. */
    bool records = false, spoilt = false;
    std::vector<work> recorded;
};

struct CUevent_st {
    CUstream_st *stream = nullptr; /* NULL: not recorded yet, which counts as done */
    uint64_t at = 0;               /* done when the stream has done so much */
    bool timed = true;
    int device = chosen_device();
    std::shared_ptr<clock_type::time_point> when = std::make_shared<clock_type::time_point>();
};

struct device_streams {
    std::recursive_mutex lock;
    bool has_driver = false;
    int64_t last_put = 0;
    CUstream_st standard;
    std::set<CUstream_st *> all = {&standard};
};

/* Never destroyed: threads may still work while the process leaves. */
static device_streams &streams()
{
    static device_streams *s = new device_streams();
    return *s;
}

typedef std::lock_guard<std::recursive_mutex> holding;

/* The stream that this thread records. */
static thread_local CUstream_st *recording;

static CUstream_st *of(cudaStream_t s)
{
    return s ? s : &streams().standard;
}

/* Does work until so much is done or something is not ready. */
static bool advance(CUstream_st *s, uint64_t to)
{
    while (s->done < to) {
        if (!s->queue.front()())
            return false;
        s->queue.pop_front();
        s->done++;
    }
    return true;
}

/* Milliseconds; 0: not at all. */
static int64_t put_off()
{
    return int64_t(number_from("DT_EMULATOR_LAZY", 0));
}

static int64_t milliseconds()
{
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               clock_type::now().time_since_epoch())
        .count();
}

/* Whether all work is done now. */
static bool advance_all()
{
    bool done = true;
    for (CUstream_st *each : streams().all)
        done = advance(each, each->put) && done;
    return done;
}

/* A GPU gets on with its work while the host is busy elsewhere, so that peers need not wait until
 * this process asks for something: a thread that is there as long as work is left. */
static void drive()
{
    for (;;) {
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        holding hold(streams().lock);
        if (milliseconds() - streams().last_put < put_off())
            continue;
        if (advance_all()) {
            streams().has_driver = false;
            return;
        }
    }
}

namespace dt_emulator
{

void put(cudaStream_t stream, work w)
{
    holding hold(streams().lock);
    CUstream_st *s = of(stream);
    if (s->records) {
        s->recorded.push_back(std::move(w));
        return;
    }
    s->queue.push_back(std::move(w));
    s->put++;
    streams().last_put = milliseconds();
    /* What waited for this work can go on too. */
    if ((put_off() == 0 && advance_all()) || streams().has_driver)
        return;
    streams().has_driver = true;
    std::thread(drive).detach();
}

int device_of(cudaStream_t s)
{
    return s ? s->device : chosen_device();
}

/* Peers are other processes, so what is not ready is asked for again and again. */
static void wait_until(CUstream_st *s, uint64_t to)
{
    for (;;) {
        {
            holding hold(streams().lock);
            if (advance(s, to))
                return;
        }
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
}

cudaError_t may_record(cudaStream_t stream)
{
    holding hold(streams().lock);
    return of(stream)->spoilt ? note(cudaErrorStreamCaptureInvalidated) : cudaSuccess;
}

cudaError_t not_while_recording()
{
    holding hold(streams().lock);
    if (!recording)
        return cudaSuccess;
    recording->spoilt = true;
    return note(cudaErrorStreamCaptureUnsupported);
}

static cudaError_t not_of_recorded(CUstream_st *s)
{
    holding hold(streams().lock);
    if (!s || !s->records)
        return cudaSuccess;
    s->spoilt = true;
    return note(cudaErrorStreamCaptureUnsupported);
}

cudaError_t begin_recording(cudaStream_t s)
{
    holding hold(streams().lock);
    if (!s || s->records || recording)
        return note(s ? cudaErrorIllegalState : cudaErrorStreamCaptureUnsupported);
    s->records = true;
    recording = s;
    return cudaSuccess;
}

bool is_recording(cudaStream_t s)
{
    holding hold(streams().lock);
    return s && s->records;
}

cudaError_t end_recording(cudaStream_t s, std::vector<work> *all)
{
    holding hold(streams().lock);
    if (!s || recording != s)
        return note(cudaErrorIllegalState);
    bool spoilt = s->spoilt;
    *all = std::move(s->recorded);
    s->recorded.clear();
    s->records = s->spoilt = false;
    recording = nullptr;
    return note(spoilt ? cudaErrorStreamCaptureInvalidated : cudaSuccess);
}

void wait_for(cudaStream_t s)
{
    uint64_t to;
    {
        holding hold(streams().lock);
        to = of(s)->put;
    }
    wait_until(of(s), to);
}

void wait_for_all()
{
    std::set<CUstream_st *> all;
    {
        holding hold(streams().lock);
        all = streams().all;
    }
    for (CUstream_st *s : all)
        wait_for(s);
}

} // namespace dt_emulator

/* -- CUDA's calls for streams ----------------------------------------------------------------- */

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned, int)
{
    holding hold(streams().lock);
    *s = new CUstream_st();
    (*s)->device = chosen_device();
    streams().all.insert(*s);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags)
{
    return cudaStreamCreateWithPriority(s, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *s)
{
    return cudaStreamCreateWithPriority(s, cudaStreamDefault, 0);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

/* Does not wait, as CUDA's does not: what is left to do is done when somebody waits for all. */
cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    holding hold(streams().lock);
    if (!s || s->closed)
        return note(cudaErrorInvalidResourceHandle);
    s->closed = true;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    cudaError_t e = not_of_recorded(s);
    if (e == cudaSuccess)
        wait_for(s);
    return e;
}

cudaError_t cudaStreamQuery(cudaStream_t s)
{
    holding hold(streams().lock);
    cudaError_t e = not_of_recorded(s);
    if (e != cudaSuccess)
        return e;
    return advance(of(s), of(s)->put) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaDeviceSynchronize(void)
{
    cudaError_t e = not_while_recording();
    if (e != cudaSuccess)
        return e;
    wait_for_all();
    return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t fn, void *arg)
{
    put(s, [fn, arg] {
        fn(arg);
        return true;
    });
    return cudaSuccess;
}

/* -- and for events --------------------------------------------------------------------------- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags)
{
    *e = new CUevent_st();
    (*e)->timed = !(flags & cudaEventDisableTiming);
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *e)
{
    return cudaEventCreateWithFlags(e, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    if (!e)
        return note(cudaErrorInvalidResourceHandle);
    delete e;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t stream)
{
    holding hold(streams().lock);
    if (e->device != device_of(stream))
        return note(cudaErrorInvalidResourceHandle);
    CUstream_st *s = of(stream);
    if (not_of_recorded(s) != cudaSuccess) /* a GPU would take it along; here nobody needs that */
        return cudaErrorStreamCaptureUnsupported;
    e->stream = s;
    e->at = s->put + 1;
    e->when = std::make_shared<clock_type::time_point>();
    put(stream, [when = e->when] {
        *when = clock_type::now();
        return true;
    });
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t e, unsigned)
{
    holding hold(streams().lock);
    if (not_of_recorded(stream) != cudaSuccess)
        return cudaErrorStreamCaptureUnsupported;
    if (e->stream)
        put(stream, [s = e->stream, at = e->at] { return advance(s, at); });
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t e)
{
    holding hold(streams().lock);
    return !e->stream || advance(e->stream, e->at) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    if (e->stream)
        wait_until(e->stream, e->at);
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    if (!from->stream || !to->stream || !from->timed || !to->timed)
        return note(cudaErrorInvalidResourceHandle);
    if (cudaEventQuery(from) != cudaSuccess || cudaEventQuery(to) != cudaSuccess)
        return cudaErrorNotReady;
    *ms = std::chrono::duration<float, std::milli>(*to->when - *from->when).count();
    return cudaSuccess;
}

} /* extern "C" */
