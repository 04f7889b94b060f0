/* Threads that help with one piece of work at a time, and sleep in between.
 *
 * Whoever has work calls `work_together`, and takes part in it; helpers that wake in time join in, and those that do
 * not are not waited for. There are none before work is first shared. A forked process has none of its parent's, and
 * makes its own. They take no signals, which belong to the threads of the program. */

typedef void (*Work)(void *context); /* called by each who takes part; shares out what there is by itself */

enum { MOST_HELPERS = 63 };

#if defined(__GNUC__) && !defined(_WIN32)

#include <pthread.h>
#include <signal.h>

#define NEXT(counter) __atomic_fetch_add(&(counter), 1, __ATOMIC_RELAXED)
#define ADD_TO(place, number) __atomic_fetch_add(place, number, __ATOMIC_RELAXED)
#define SEEN(flag) __atomic_load_n(&(flag), __ATOMIC_RELAXED)
#define SET(flag, value) __atomic_store_n(&(flag), value, __ATOMIC_RELAXED)

static struct {
    pthread_mutex_t lock;
    pthread_cond_t begun, done;
    int wanted, alive, joined; /* helpers: that may take part, that there are, that are at work */
    Work work;                 /* NULL: there is none to join */
    void *context;
    unsigned int number; /* of the work: nobody joins the same twice */
} helpers = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0, NULL, NULL, 0};

static void *help(void *nothing)
{
    (void)nothing;
    pthread_mutex_lock(&helpers.lock);
    for (unsigned int number = helpers.number - 1;;) {
        while (!helpers.work || helpers.number == number || helpers.joined >= helpers.wanted)
            pthread_cond_wait(&helpers.begun, &helpers.lock);
        number = helpers.number;
        Work work = helpers.work;
        void *context = helpers.context;
        helpers.joined++;
        pthread_mutex_unlock(&helpers.lock);
        work(context);
        pthread_mutex_lock(&helpers.lock);
        if (--helpers.joined == 0)
            pthread_cond_signal(&helpers.done);
    }
    return NULL;
}

/* Makes helpers that are missing; where none can be had, there are fewer. */
static void find_helpers(void)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (helpers.alive < helpers.wanted) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, help, NULL) != 0)
            break;
        pthread_detach(thread);
        helpers.alive++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void work_together(Work work, void *context)
{
    pthread_mutex_lock(&helpers.lock);
    int mine = helpers.wanted && !helpers.work && !helpers.joined; /* else they help another */
    if (mine) {
        find_helpers();
        helpers.work = work;
        helpers.context = context;
        helpers.number++;
        pthread_cond_broadcast(&helpers.begun);
    }
    pthread_mutex_unlock(&helpers.lock);
    work(context);
    if (!mine)
        return;
    pthread_mutex_lock(&helpers.lock);
    helpers.work = NULL;
    while (helpers.joined)
        pthread_cond_wait(&helpers.done, &helpers.lock);
    pthread_mutex_unlock(&helpers.lock);
}

static int use_helpers(int wanted)
{
    pthread_mutex_lock(&helpers.lock);
    int before = helpers.wanted;
    helpers.wanted = wanted;
    pthread_mutex_unlock(&helpers.lock);
    return before;
}

static void forget_helpers(void)
{
    pthread_mutex_init(&helpers.lock, NULL);
    pthread_cond_init(&helpers.begun, NULL);
    pthread_cond_init(&helpers.done, NULL);
    helpers.alive = helpers.joined = 0;
    helpers.work = NULL;
}

static void prepare_helpers(void) { pthread_atfork(NULL, NULL, forget_helpers); }

#else

#define NEXT(counter) ((counter)++)
#define ADD_TO(place, number) (*(place) += (number))
#define SEEN(flag) (flag)
#define SET(flag, value) ((flag) = (value))

static void work_together(Work work, void *context) { work(context); }

static int use_helpers(int wanted)
{
    (void)wanted;
    return 0;
}

static void prepare_helpers(void) {}

#endif
