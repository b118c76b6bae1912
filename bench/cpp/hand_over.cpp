// One record from a thread to another: how many a second, and how long each takes. A
// shared library, so that the same code also runs beside a busy Python thread.
#include <pthread.h>
#include <sched.h>

#include <cstdint>
#include <ctime>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "queues.hpp"

namespace {

std::int64_t now_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

/// Keeps a polling thread on a core of its own: two that share one hand over a time
/// slice late. Its owner has its cores back afterwards.
class Pinned {
 public:
  Pinned(int index, bool wanted) : wanted_(wanted) {
    if (!wanted_) return;
    pthread_getaffinity_np(pthread_self(), sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    int left = index % CPU_COUNT(&before_);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &before_) && left-- == 0) CPU_SET(cpu, &one);
    pthread_setaffinity_np(pthread_self(), sizeof one, &one);
  }
  ~Pinned() {
    if (wanted_) pthread_setaffinity_np(pthread_self(), sizeof before_, &before_);
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

 private:
  const bool wanted_;
  cpu_set_t before_;
};

/// More tries than a hand-over takes; who waits longer lets others run, since there may
/// be more threads than cores.
class Backoff {
 public:
  void wait() {
    if (++tries_ % 256 == 0)
      std::this_thread::yield();
    else
      pause();
  }

 private:
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  unsigned tries_ = 0;
};

template <class Queue, class Item>
void push(Queue& queue, const Item& item, bool sleep) {
  if (sleep) return queue.push(item);
  for (Backoff backoff; !queue.try_push(item);) backoff.wait();
}

template <class Queue, class Item>
void pop(Queue& queue, Item& item, bool sleep) {
  if (sleep) return queue.pop(item);
  for (Backoff backoff; !queue.try_pop(item);) backoff.wait();
}

struct Job {
  int producers;  // 0: one thread puts and takes in turn
  bool sleep;
  std::int64_t count;
  std::int64_t period_ns;  // between records, slow enough that each goes alone; or 0
  std::int64_t* latencies_ns;
};

template <class Queue, class Item>
std::int64_t alone(const Job& job) {
  const auto queue = std::make_unique<Queue>();
  Item item{};
  std::int64_t sum = 0;
  const std::int64_t start = now_ns();
  for (std::int64_t i = 0; i < job.count; ++i) {
    item.stamp = i;
    queue->try_push(item);
    queue->try_pop(item);
    sum += item.stamp;
  }
  const std::int64_t spent = now_ns() - start;
  return sum == job.count * (job.count - 1) / 2 ? spent : -2;
}

/// Waits as the consumer does: polling needs a core for each of them, but no clock
/// interrupt is then between the records.
void wait_ns(std::int64_t ns, bool sleep) {
  if (sleep) {
    const timespec time{0, ns};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
    return;
  }
  for (const std::int64_t end = now_ns() + ns; now_ns() < end;) {
  }
}

template <class Queue, class Item>
void produce(Queue& queue, const Job& job, std::int64_t count) {
  Item item{};
  for (std::int64_t i = 0; i < count; ++i) {
    if (job.period_ns) wait_ns(job.period_ns, job.sleep);
    item.stamp = job.latencies_ns ? now_ns() : i;
    push(queue, item, job.sleep);
  }
}

/// Nanoseconds for all records; -2 if they are not those that were sent.
template <class Queue, class Item>
std::int64_t run(const Job& job) {
  if (job.sleep && !Queue::kSleeps) return -1;
  if (job.producers > 1 && !Queue::kManyProducers) return -1;
  if (job.producers == 0) return alone<Queue, Item>(job);
  const auto queue = std::make_unique<Queue>();
  const std::int64_t each = job.count / job.producers;
  const bool pin = !job.sleep && job.producers == 1;
  const std::int64_t start = now_ns();
  std::vector<std::thread> producers;
  for (int p = 0; p < job.producers; ++p)
    producers.emplace_back([&, p] {
      const Pinned pinned(p + 1, pin);
      produce<Queue, Item>(*queue, job, each);
    });
  const Pinned pinned(0, pin);
  std::int64_t sum = 0;
  Item item{};
  for (std::int64_t i = 0; i < each * job.producers; ++i) {
    pop(*queue, item, job.sleep);
    if (job.latencies_ns) job.latencies_ns[i] = now_ns() - item.stamp;
    sum += item.stamp;
  }
  const std::int64_t spent = now_ns() - start;
  for (std::thread& producer : producers) producer.join();
  if (!job.latencies_ns && sum != job.producers * (each * (each - 1) / 2)) return -2;
  return spent;
}

template <class Item>
std::int64_t run(std::string_view queue, const Job& job) {
  using namespace hand_over;  // NOLINT(google-build-using-namespace)
  if (queue == "echobuf") return run<EchobufRing<Item>, Item>(job);
  if (queue == "boost queue") return run<BoostQueue<Item>, Item>(job);
  if (queue == "boost spsc") return run<BoostSpsc<Item>, Item>(job);
  if (queue == "boost queue + semaphores") return run<BoostSleeping<Item>, Item>(job);
  if (queue == "mutex + condition variables") return run<Locked<Item>, Item>(job);
  return -3;
}

}  // namespace

/// Nanoseconds that `count` records took; below 0: not of this queue (-1), wrong (-2),
/// unknown queue (-3) or size (-4). `latencies_ns`: null, or room for `count`.
extern "C" std::int64_t hand_over_run(const char* queue, std::int64_t bytes,
                                      int producers, int sleep, std::int64_t count,
                                      std::int64_t period_ns,
                                      std::int64_t* latencies_ns) {
  const Job job{producers, sleep != 0, count, period_ns, latencies_ns};
  if (bytes == 8) return run<hand_over::Record<8>>(queue, job);
  if (bytes == 136) return run<hand_over::Record<136>>(queue, job);
  return -4;
}
