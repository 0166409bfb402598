#include "detail/carrier.hpp"

#include <rungs/core/error.hpp>

namespace rungs::transport::detail {

void check_piece(const Piece& piece, const Window& window) {
  const bool refused = piece.total_bytes > window.capacity_bytes;
  if (piece.message == window.message && piece.offset_bytes == window.offset_bytes &&
      (refused || piece.size_bytes <= window.size_bytes)) {
    return;
  }
  RUNGS_THROW(kInternal, "bug: message ", piece.message, ", bytes ", piece.offset_bytes, " to ",
              piece.offset_bytes + piece.size_bytes, " arrived where message ", window.message,
              ", bytes ", window.offset_bytes, " to ", window.offset_bytes + window.size_bytes,
              " was awaited");
}

}  // namespace rungs::transport::detail
