// The OS threads of one virtual device. A launch is run by its caller and by as many helpers as there are cores and
// blocks for; concurrent launches share the helpers, higher priority first.
#pragma once

#include <pthread.h>

#include "block.h"

namespace host {

struct Job {
    Launch* launch;
    int priority;
    unsigned inside;  // helpers at work on it
    Job* next;

    bool has_blocks() const {
        return __atomic_load_n(&launch->next, __ATOMIC_RELAXED) < launch->blocks &&
               !__atomic_load_n(&launch->failed, __ATOMIC_RELAXED);
    }
};

struct Pool {
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t work = PTHREAD_COND_INITIALIZER;
    pthread_cond_t left = PTHREAD_COND_INITIALIZER;
    Job* jobs = nullptr;
    Worker* idle = nullptr;  // for callers
    unsigned wanted;         // helpers
    unsigned helpers = 0;
    unsigned sleeping = 0;
    bool stopping = false;
    uint64_t launches = 0;
    pthread_t* threads;

    explicit Pool(unsigned cores) : wanted(cores - 1), threads(new pthread_t[cores]) {}

    void run(Launch& launch, int priority) {
        pthread_mutex_lock(&lock);
        launch.seed += ++launches;
        Worker* worker = idle ? idle : Worker::create();
        if (idle) idle = idle->next;
        Job job = {&launch, priority, 0, nullptr};
        const bool shared = wanted && launch.blocks > 1;
        if (shared) {
            Job** place = &jobs;
            while (*place && (*place)->priority >= priority) place = &(*place)->next;
            job.next = *place;
            *place = &job;
            start_helpers();
            const uint64_t useful = launch.blocks - 1;
            if (useful >= sleeping) {
                pthread_cond_broadcast(&work);
            } else {
                for (uint64_t i = 0; i < useful; ++i) pthread_cond_signal(&work);
            }
        }
        pthread_mutex_unlock(&lock);

        launch.run(*worker, launch);

        pthread_mutex_lock(&lock);
        if (shared) {
            Job** place = &jobs;
            while (*place != &job) place = &(*place)->next;
            *place = job.next;
            while (job.inside) pthread_cond_wait(&left, &lock);
        }
        worker->next = idle;
        idle = worker;
        pthread_mutex_unlock(&lock);
    }

    // No launch may be running.
    void destroy() {
        pthread_mutex_lock(&lock);
        stopping = true;
        pthread_cond_broadcast(&work);
        pthread_mutex_unlock(&lock);
        for (unsigned i = 0; i < helpers; ++i) pthread_join(threads[i], nullptr);
        while (idle) {
            Worker* next = idle->next;
            idle->destroy();
            idle = next;
        }
        delete[] threads;
        delete this;
    }

private:
    // With the lock held. Fewer than wanted when the system allows no more threads: slower, not wrong.
    void start_helpers() {
        while (helpers < wanted) {
            if (pthread_create(&threads[helpers], nullptr, help, this)) {
                wanted = helpers;
                return;
            }
            ++helpers;
        }
    }

    static void* help(void* pool) {
        static_cast<Pool*>(pool)->help();
        return nullptr;
    }

    void help() {
        Worker* worker = Worker::create();
        pthread_mutex_lock(&lock);
        while (!stopping) {
            Job* job = jobs;
            while (job && !job->has_blocks()) job = job->next;
            if (!job) {
                ++sleeping;
                pthread_cond_wait(&work, &lock);
                --sleeping;
                continue;
            }
            ++job->inside;
            pthread_mutex_unlock(&lock);
            job->launch->run(*worker, *job->launch);
            pthread_mutex_lock(&lock);
            if (--job->inside == 0) pthread_cond_broadcast(&left);
        }
        pthread_mutex_unlock(&lock);
        worker->destroy();
    }
};

}  // namespace host
