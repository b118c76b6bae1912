#include "stream.hpp"

#include <utility>

namespace echobuf::simulated {

bool Position::done() const { return stream->done(sequence); }
void Position::wait() const { stream->wait(sequence); }

Stream::Stream(std::size_t number, Execute execute)
    : number_(number), execute_(std::move(execute)), thread_([this] { work(); }) {}

Stream::~Stream() {
  close();
  join();
}

void Stream::push(Operation operation) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(operation));
  changed_.notify_all();
}

void Stream::hold(bool held) {
  const std::lock_guard lock(mutex_);
  held_ = held;
  changed_.notify_all();
}

bool Stream::full() const {
  const std::lock_guard lock(mutex_);
  return queue_.size() >= kMostQueued;
}

void Stream::wait_for_room() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return queue_.size() < kMostQueued; });
}

bool Stream::done(std::uint64_t sequence) const {
  const std::lock_guard lock(mutex_);
  return completed_ >= sequence;
}

void Stream::wait(std::uint64_t sequence) const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return completed_ >= sequence; });
}

void Stream::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

bool Stream::finished() const {
  const std::lock_guard lock(mutex_);
  return finished_;
}

void Stream::join() {
  if (thread_.joinable()) thread_.join();
}

void Stream::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return closed_ || (!queue_.empty() && !held_); });
    if (queue_.empty()) break;
    {
      const Operation operation = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      execute_(operation);
      lock.lock();
      completed_ = operation.label->tick;
      changed_.notify_all();
      lock.unlock();
    }  // gives back what it refers to, other streams perhaps, without the lock
    lock.lock();
  }
  finished_ = true;
}

}  // namespace echobuf::simulated
