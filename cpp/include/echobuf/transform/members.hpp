#pragma once

// The members of an operation by their names, which settings in Python have, too.

/// In a struct, after its members: lets a visitor have their names, and them.
#define ECHOBUF_MEMBERS(...)          \
  template <class Visit>              \
  void members(Visit&& visit) {       \
    visit(#__VA_ARGS__, __VA_ARGS__); \
  }
