# FlatBuffers schemas in api/ -> ${CMAKE_BINARY_DIR}/generated/api/*_generated.h
find_program(SPACE_FLATC flatc REQUIRED)
set(_generated)
foreach(schema status guest node link vault)
  set(in ${CMAKE_SOURCE_DIR}/api/${schema}.fbs)
  set(out ${CMAKE_BINARY_DIR}/generated/api/${schema}_generated.h)
  add_custom_command(
    OUTPUT ${out}
    COMMAND ${SPACE_FLATC} --cpp --cpp-std c++17 --scoped-enums --gen-object-api --no-prefix --include-prefix api
            -I ${CMAKE_SOURCE_DIR}/api -o ${CMAKE_BINARY_DIR}/generated/api ${in}
    DEPENDS ${in} ${CMAKE_SOURCE_DIR}/api/status.fbs
    COMMENT "flatc ${schema}.fbs")
  list(APPEND _generated ${out})
endforeach()
add_custom_target(space_schemas DEPENDS ${_generated})
