/* The statistics of a tensor inside a program that XLA compiled, where it lies: a handler of XLA's foreign function
 * interface. `capture/jax/foreign.py` has programs call it.
 *
 * What is declared here is the part of that interface (its version 0) that is read or written. A call says how large it
 * is, with all that lies within it; an XLA whose calls are of another size is refused before it compiles anything. */

enum { XLA_METADATA = 1, XLA_EXECUTE = 3, XLA_BUFFER = 1, XLA_SCALAR = 3, XLA_INVALID_ARGUMENT = 3 };
enum { LEAST = 5, GREATEST = 6 }; /* of the moments */

typedef struct XlaExtension {
    size_t size;
    int type;
    struct XlaExtension *next;
} XlaExtension;

typedef struct {
    size_t size;
    XlaExtension *extension;
    int major, minor;
} XlaVersion;

typedef struct {
    size_t size;
    XlaVersion version;
    uint32_t traits;
    int64_t state; /* not known to every XLA */
} XlaAnswer;

typedef struct {
    XlaExtension base;
    XlaAnswer *metadata;
} XlaMetadata;

typedef struct XlaError XlaError;

typedef struct {
    size_t size;
    XlaExtension *extension;
    const char *message;
    int code;
} XlaErrorToMake;

typedef struct {
    size_t size;
    XlaExtension *extension;
    XlaVersion version;
    const void *internal;
    XlaError *(*make_error)(XlaErrorToMake *);
} XlaApi;

typedef struct {
    size_t size;
    XlaExtension *extension;
    int dtype;
    void *data;
    int64_t rank;
    int64_t *shape;
} XlaBuffer;

typedef struct {
    size_t size;
    XlaExtension *extension;
    int64_t count;
    int *types;
    void **items;
} XlaItems;

typedef struct {
    const char *text;
    size_t length;
} XlaText;

typedef struct {
    size_t size;
    XlaExtension *extension;
    int64_t count;
    int *types;
    XlaText **names;
    void **items;
} XlaSettings;

typedef struct {
    int dtype;
    void *value;
} XlaScalar;

typedef struct {
    size_t size;
    XlaExtension *extension;
    const XlaApi *api;
    void *context;
    int stage;
    XlaItems given, returned;
    XlaSettings settings;
} XlaCall;

static XlaError *xla_refuse(const XlaCall *call, int code, const char *message)
{
    XlaErrorToMake error = {sizeof error, NULL, message, code};
    return call->api->make_error(&error);
}

/* XLA asks once which version of its interface this was made for: the one it has, as long as its calls look like ours. */
static XlaError *xla_tell_version(const XlaCall *call)
{
    XlaAnswer *answer = ((XlaMetadata *)(void *)call->extension)->metadata;
    if (call->api->version.major != 0 || call->size != sizeof *call ||
        answer->size < offsetof(XlaAnswer, traits) + sizeof answer->traits)
        return xla_refuse(call, XLA_INVALID_ARGUMENT, "Barograph does not know this version of XLA's foreign functions.");
    answer->version = call->api->version;
    answer->traits = 0;
    if (answer->size > offsetof(XlaAnswer, state))
        answer->state = 0;
    return NULL;
}

static uint64_t xla_numel(const XlaBuffer *buffer)
{
    uint64_t numel = 1;
    for (int64_t i = 0; i < buffer->rank; i++)
        numel *= (uint64_t)buffer->shape[i];
    return numel;
}

/* A setting of eight bytes; 0 where there is none of that name. */
static uint64_t xla_setting(const XlaCall *call, const char *name)
{
    uint64_t value = 0;
    for (int64_t i = 0; i < call->settings.count; i++)
        if (call->settings.types[i] == XLA_SCALAR && call->settings.names[i]->length == strlen(name) &&
            memcmp(call->settings.names[i]->text, name, strlen(name)) == 0)
            memcpy(&value, ((const XlaScalar *)call->settings.items[i])->value, sizeof value);
    return value;
}

/* The tensor that was given in that place; NULL where there is none. */
static const XlaBuffer *xla_given(const XlaCall *call, int64_t place)
{
    return place < call->given.count && call->given.types[place] == XLA_BUFFER ? call->given.items[place] : NULL;
}

/* What was returned in that place; NULL where it has not as many words of 32 bits. */
static void *xla_words(const XlaCall *call, int64_t place, uint64_t words)
{
    if (place >= call->returned.count || call->returned.types[place] != XLA_BUFFER)
        return NULL;
    const XlaBuffer *buffer = call->returned.items[place];
    return xla_numel(buffer) == words ? buffer->data : NULL;
}

static void clear_columns(double *columns, uint64_t units)
{
    memset(columns, 0, units * UNITS * sizeof(double));
    for (uint64_t unit = 0; unit < units; unit++) {
        columns[unit * UNITS + MIN] = HUGE_VAL;
        columns[unit * UNITS + MAX] = -HUGE_VAL;
    }
}

/* One tensor is given, or two alike. Returned are the moments of the first and, where `mode` asks for them, its bins; of
 * two, then those of how the first differs from the second, with bins where `change` asks for them. A mode of −1: that
 * is not asked for. And where `units` is not 0, of one tensor the statistics of each index of its last axis. All in
 * words of 32 bits: not every program may hold numbers of 64. */
static XlaError *xla_summarize(XlaCall *call)
{
    if (call->extension && call->extension->type == XLA_METADATA)
        return xla_tell_version(call);
    if (call->size != sizeof *call || call->stage != XLA_EXECUTE)
        return xla_refuse(call, XLA_INVALID_ARGUMENT, "Barograph does not know such calls of foreign functions.");
    const XlaBuffer *x = xla_given(call, 0), *minus = xla_given(call, 1);
    if (call->given.count != (minus ? 2 : 1) || !x ||
        (minus && (minus->dtype != x->dtype || xla_numel(minus) != xla_numel(x))))
        return xla_refuse(call, XLA_INVALID_ARGUMENT, "Statistics are made of one tensor, or of two that are alike.");
    int64_t dtype = (int64_t)xla_setting(call, "dtype"), place = 0;
    int64_t modes[PLACES] = {(int64_t)xla_setting(call, "mode"), (int64_t)xla_setting(call, "change")};
    uint64_t numel = xla_numel(x), bound_bits = xla_setting(call, "bound");
    uint64_t units = xla_setting(call, "units") && x->rank > 0 ? (uint64_t)x->shape[x->rank - 1] : 0;
    double *rows[PLACES] = {NULL, NULL}, moments[PLACES * MOMENTS];
    int64_t *bins[PLACES] = {NULL, NULL}, exponents[PLACES * BINS];
    Task task = {{x->data, minus ? minus->data : NULL, NULL, (int)dtype}, (int64_t)numel, {{-1, 0}, {-1, 0}}};
    int is_right = dtype >= 0 && dtype < DTYPES && (modes[DIFFERENCE] >= 0) == (minus != NULL) &&
                   (modes[ITSELF] >= 0 || minus) && !(units && minus);
    for (int i = 0; i < PLACES; i++) {
        if (modes[i] < 0)
            continue;
        task.places[i] = (Place){i, modes[i]};
        rows[i] = xla_words(call, place++, 2 * MOMENTS);
        bins[i] = modes[i] ? xla_words(call, place++, 2 * BINS) : NULL;
        is_right = is_right && modes[i] <= 2 && rows[i] && (bins[i] || !modes[i]);
    }
    double *columns = units ? xla_words(call, place, 2 * units * UNITS) : NULL;
    if (!is_right || (units && !columns))
        return xla_refuse(call, XLA_INVALID_ARGUMENT, "The type, the histogram or a size is none that is known.");

    FloatState state = enter_float_state();
    for (int i = 0; i < PLACES; i++) {
        memset(moments + i * MOMENTS, 0, MOMENTS * sizeof *moments);
        moments[i * MOMENTS + LEAST] = HUGE_VAL;
        moments[i * MOMENTS + GREATEST] = -HUGE_VAL;
        memset(exponents + i * BINS, 0, (bins[i] ? BINS : 0) * sizeof *exponents);
    }
    read_alone(&task, 1, moments, exponents);
    for (int i = 0; i < PLACES; i++) {
        if (rows[i])
            memcpy(rows[i], moments + i * MOMENTS, MOMENTS * sizeof *moments);
        if (bins[i])
            memcpy(bins[i], exponents + i * BINS, BINS * sizeof *exponents);
    }
    if (columns) {
        double bound;
        memcpy(&bound, &bound_bits, sizeof bound);
        clear_columns(columns, units);
        Layers layers = {x->data, numel / units, units, 1, (int)dtype, bound, round_up(bound), columns};
        /* Where there is no memory for that, nothing was seen of the units: the step that we are in goes on. */
        if (numel && !summarize_units(&layers))
            clear_columns(columns, units);
    }
    leave_float_state(state);
    return NULL;
}

static PyObject *py_xla_handler(PyObject *module, PyObject *nothing)
{
    (void)module;
    (void)nothing;
    return PyCapsule_New((void *)(uintptr_t)xla_summarize, NULL, NULL);
}
