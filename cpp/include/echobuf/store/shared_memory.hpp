// Memory that several processes see. It has no name: the last process that has it open
// takes it along, however it ends, and /dev/shm has no part in it.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <new>
#include <system_error>

#include "echobuf/sizes.hpp"
#include "echobuf/store/memory.hpp"

namespace echobuf {

class SharedMemory final : public Memory {
 public:
  /// Makes it, of zeros. Throws std::bad_alloc, or std::system_error where file
  /// descriptors are lacking or a file may not be so large (RLIMIT_FSIZE).
  explicit SharedMemory(std::size_t bytes)
      : Memory(round_up(bytes ? bytes : 1, kLeafAlignment)), fd_(make(bytes_)) {
    map();
  }

  /// Maps memory that another process has made: `fd` is duplicated. Throws
  /// std::system_error unless it is memory of at least `bytes`.
  SharedMemory(int fd, std::size_t bytes, bool writable = true)
      : Memory(bytes), fd_(again(fd, bytes)) {
    map(writable);
  }

  ~SharedMemory() override {
    munmap(data_, bytes_);
    ::close(fd_);
  }

  /// To be handed to another process; it stays ours.
  int fd() const { return fd_; }

 private:
  static int make(std::size_t bytes) {
#ifdef __linux__
    const int fd = memfd_create("echobuf", MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, static_cast<off_t>(bytes)) == 0) return fd;
    const int error = errno;
    if (fd >= 0) ::close(fd);
    if (error == EMFILE || error == ENFILE || error == EFBIG)
      throw std::system_error(error, std::generic_category(), "shared memory");
#endif
    throw std::bad_alloc();
  }

  static int again(int fd, std::size_t bytes) {
    struct stat about {};
    if (fstat(fd, &about) != 0)
      throw std::system_error(errno, std::generic_category(), "shared memory");
    // An access past its end would be a bus error.
    if (!S_ISREG(about.st_mode) || about.st_size < 0 ||
        static_cast<std::size_t>(about.st_size) < bytes)
      throw std::system_error(EINVAL, std::generic_category(), "shared memory");
    const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0) throw std::system_error(errno, std::generic_category(), "dup");
    return own;
  }

  void map(bool writable = true) {
    const int access = writable ? PROT_READ | PROT_WRITE : PROT_READ;
    data_ = mmap(nullptr, bytes_, access, MAP_SHARED, fd_, 0);
    if (data_ == MAP_FAILED) {
      ::close(fd_);
      throw std::bad_alloc();
    }
#ifdef MADV_HUGEPAGE
    madvise(data_, bytes_, MADV_HUGEPAGE);  // as in HostMemory
#endif
  }

  const int fd_;
};

}  // namespace echobuf
