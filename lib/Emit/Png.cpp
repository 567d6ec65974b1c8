#include "Emit/Png.h"

#include "Emit/Svg.h"

#include <fmt/format.h>

#ifdef SLUICE_RSVG
#include <cmath>
#include <librsvg/rsvg.h>
#include <memory>
#endif

namespace sluice {

static llvm::Error error(const std::string &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), "%s", message.c_str());
}

#ifdef SLUICE_RSVG

namespace {

constexpr double pixelsPerUnit = 2;
/// Of cairo, either way.
constexpr double mostPixels = 32767;
/// Four bytes each: half a gigabyte.
constexpr double mostArea = 128e6;

template <auto Free> struct Freed {
  template <typename T> void operator()(T *object) const { Free(object); }
};
using Handle = std::unique_ptr<RsvgHandle, Freed<g_object_unref>>;
using Surface = std::unique_ptr<cairo_surface_t, Freed<cairo_surface_destroy>>;
using Context = std::unique_ptr<cairo_t, Freed<cairo_destroy>>;

cairo_status_t append(void *bytes, const unsigned char *data, unsigned length) {
  static_cast<std::string *>(bytes)->append(reinterpret_cast<const char *>(data), length);
  return CAIRO_STATUS_SUCCESS;
}

llvm::Error drawn(RsvgHandle *picture, cairo_surface_t *surface, double width, double height) {
  const Context context(cairo_create(surface));
  const RsvgRectangle whole{0, 0, width, height};
  GError *failure = nullptr;
  if (rsvg_handle_render_document(picture, context.get(), &whole, &failure))
    return llvm::Error::success();
  const std::string message = failure->message;
  g_error_free(failure);
  return error("the picture cannot be drawn: " + message);
}

} // namespace

llvm::Expected<std::string> png(llvm::ArrayRef<TimedSchedule> schedules) {
  const std::string text = svg(schedules);
  const Handle picture(
      rsvg_handle_new_from_data(reinterpret_cast<const guint8 *>(text.data()), text.size(), nullptr));
  double width = 0, height = 0;
  if (!picture || !rsvg_handle_get_intrinsic_size_in_pixels(picture.get(), &width, &height))
    return error("the picture cannot be drawn: librsvg does not read it");
  width = std::ceil(width * pixelsPerUnit);
  height = std::ceil(height * pixelsPerUnit);
  if (width > mostPixels || height > mostPixels || width * height > mostArea)
    return error(fmt::format("a PNG of {:.0f} x {:.0f} pixels is too large: show a part by --from, --to or "
                             "--devices, or draw it as SVG (-o FILE.svg)",
                             width, height));
  const Surface surface(
      cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(width), static_cast<int>(height)));
  if (llvm::Error failure = drawn(picture.get(), surface.get(), width, height))
    return failure;
  std::string bytes;
  if (const cairo_status_t status = cairo_surface_write_to_png_stream(surface.get(), append, &bytes))
    return error(fmt::format("the picture cannot be written: {}", cairo_status_to_string(status)));
  return bytes;
}

#else

llvm::Expected<std::string> png(llvm::ArrayRef<TimedSchedule>) {
  return error("this build has no PNG: install librsvg2-dev and build again");
}

#endif

} // namespace sluice
